import sys; sys.path.insert(0,'.scratch')
from edit import sub,cut
R='mdrecall/embed/remote/'
cut(R+'jobs.py','            if isinstance(entry, dict) and (','                return self._parse_state(entry)','''            if _text(entry, "input_file_id") == file or _text(entry, "metadata", "tag") == tag:
''')
B='mdrecall/backends/embedders.py'
cut(B,'#: Whose ``memorySearch.remote`` it is','class EmbedderChoice(','\n')
sub(B,('''        if found := _PROVIDER_BY_HOST.get(_host(access.base_url or "")) or _provider_of_model(self._search.model):
            return found
        key = access.keys[0].reveal() if access.keys else ""
        return next((name for name, sign in _KEY_PREFIXES.items() if key.startswith(sign)), "openai")
''','''        from mdrecall.embed.remote.providers import provider_of_key, provider_of_model, provider_of_url

        key = access.keys[0].reveal() if access.keys else ""
        found = provider_of_url(access.base_url or "") or provider_of_model(self._search.model)
        return found or provider_of_key(key) or "openai"
'''),
('''        meant_for = owner or _provider_of_model(self._search.model)
''','''        from mdrecall.embed.remote.providers import provider_of_model

        meant_for = owner or provider_of_model(self._search.model)
'''),
('from mdrecall.embed.remote.providers import PROVIDERS, InputTypes','from mdrecall.embed.remote.providers import PROVIDERS'),
('input_types=InputTypes(*_find_input_types(self._search)) if uses_model else InputTypes(),','input_types=_find_input_types(self._search) if uses_model else ("", ""),'))
cut(B,'def _host(url','def _check_url(')
sub('mdrecall/backends/embedding_status.py',('''        # A remote embedder can be checked faster than by embedding texts.
        ping = getattr(embedder, "ping", None)
        vector = ping() if ping else embedder.embed_chunks([EmbedInput("", "ping")])[0].vector
''','''        vector = embedder.embed_query("ping", {})
'''),('from mdrecall.types import EmbedInput, Probe','from mdrecall.types import Probe'))
for f in ('mdrecall/embed/gguf/embedder.py','mdrecall/embed/minilm/embedder.py','mdrecall/embed/minilm/files.py'):
    s=open(f).read(); s=s.replace('mdrecall.embed.prompts','mdrecall.embed.models'); open(f,'w').write(s)
sub('mdrecall/embed/gguf/reranker.py',('from mdrecall.embed.rerank import ScoreScale, UnexpectedScores, read_scores','from mdrecall.embed.models import ScoreScale, UnexpectedAnswer, read_scores'),('UnexpectedScores','UnexpectedAnswer'))
