import sys,re; sys.path.insert(0,'.scratch')
from edit import sub,cut
T='tests/embed/'
cut(T+'test_remote_reranker.py','def test_a_redirect_gets_neither','def test_a_server_that_does_not_answer_in_time','''def test_a_redirect_is_not_followed() -> None:
    with (
        RerankServer("cohere", key=KEY) as other,
        RerankServer("cohere", key=KEY) as server,
        reranking(server) as reranker,
    ):
        for url in (other.url, server.url):
            server.location = f"{url}/rerank?moved"
            with pytest.raises(WrongAnswer, match="where nothing is sent"):
                reranker.rerank("green tea", TEXTS)
        assert (len(server.asked), other.asked) == (2, [])


''')
sub(T+'test_remote_reranker.py',('''        assert found.value.hint == (
            "Check that mdrecall.rerank.baseUrl is the address of a rerank API,"
            " and mdrecall.rerank.model (rerank-v3.5)."
        )
''','''        assert found.value.hint == "Check mdrecall.rerank.baseUrl and mdrecall.rerank.model (rerank-v3.5)."
'''))
cut(T+'test_remote_embedder.py','def test_an_ollama_that_knows_only_the_old_way','def test_an_ollama_without_the_model')
M='tests/providers/matrix.py'
cut(M,'def _private() -> Fault:','def _wrong_key')
cut(M,'    Row("Ollama does not know','    Row("status 400 for every')
sub(M,('lambda: faults.error(404), "next sync", "words", WrongAnswer, kinds=BUSY),','lambda: faults.error(404), "next sync", "words", WrongAnswer),'),
('''    Row("a redirect within the server", lambda: faults.redirect("?moved=1"), "used", "words", WrongAnswer),
    Row("a redirect to a private address", _private, "next sync", "words", WrongAnswer),
    Row("a redirect to a file", lambda: faults.redirect("file:///etc/passwd"), "next sync", "words", WrongAnswer),
''','''    Row("a redirect", lambda: faults.redirect("?moved=1"), "next sync", "words", WrongAnswer),
'''))
D='docs/providers.md'
sub(D,('''| Ollama does not know `/api/embed` | used | reported; keyword search answers | `WrongAnswer` |
''',''),('''| a redirect within the server | used | reported; keyword search answers | `WrongAnswer` |
| a redirect to a private address | reported; the next sync catches up | reported; keyword search answers | `WrongAnswer` |
| a redirect to a file | reported; the next sync catches up | reported; keyword search answers | `WrongAnswer` |
''','''| a redirect | reported; the next sync catches up | reported; keyword search answers | `WrongAnswer` |
'''),('''| Ollama | `/api/embed` with many texts, or `/api/embeddings` if that is not available |
''','''| Ollama | `/api/embed`, which Ollama has since 0.3 |
'''),('''| redirects | followed; to another host without the key and the configured headers, and never to a private address |
''','''| redirects | reported, and not followed: texts go to the configured address only. The files of batch jobs are also fetched from another public host over https, without the key |
'''))
O='tests/providers/ollama.py'
sub(O,('''OLD_LENGTH = 3.0
"""How long the vectors of ``/api/embeddings`` are, which are not brought to length one."""


''','''
'''),('"""``/api/embed`` takes many texts, ``/api/embeddings`` one."""','"""``/api/embed`` takes many texts."""'),('request.path not in ("/api/embed", "/api/embeddings"):','request.path != "/api/embed":'),
('''        one = request.path == "/api/embeddings"
        texts = texts_of(body.get("prompt" if one else "input", ""))
''','''        texts = texts_of(body.get("input", ""))
'''),('body.get("dimensions"), "one" if one else "many")','body.get("dimensions"), "many")'),('''        if asked.form == "one":
            return {"embedding": [OLD_LENGTH * x if isinstance(x, float) else x for v in vectors[:1] for x in v]}
''',''))
