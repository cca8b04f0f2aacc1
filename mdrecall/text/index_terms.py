"""The terms of the index: what SQLite's FTS5 makes of a text, with the tokenizer that the index is created with.

That is ``porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'``: a term is a run of characters that are no
separators, each folded to lower case without its accent, and stemmed. ``index_terms`` makes the same terms for a store
without FTS5. A property test compares the two.

The tables were read from FTS5 itself, by giving it every character in turn. Python's own tables would not do: they
follow a newer version of Unicode, which differs from one Python to the next.
"""

import re
from functools import cache, lru_cache

from mdrecall.text.words import porter_stem

# Characters and ranges of characters that end a term. FTS5 takes every character that it does not know for a letter.
_SEPARATORS = """
0-2f 3a-40 5b-60 7b-a9 ab-b1 b4 b6-b8 bb bf d7 f7 2c2-2c5 2d2-2df 2e5-2eb 2ed 2ef-2ff 375 37e 384-385 387 3f6 482
488-489 55a-55f 589-58a 58f 5be 5c0 5c3 5c6 5f3-5f4 600-604 606-60f 61b 61e-61f 66a-66d 6d4 6dd-6de 6e9 6fd-6fe
700-70d 70f 7f6-7f9 830-83e 85e 964-965 970 9f2-9f3 9fa-9fb af0-af1 b70 bf3-bfa c7f d79 df4 e3f e4f e5a-e5b f01-f17
f1a-f1f f34 f36 f38 f3a-f3d f85 fbe-fc5 fc7-fcc fce-fda 104a-104f 109e-109f 10fb 1360-1368 1390-1399 1400 166d-166e
1680 169b-169c 16eb-16ed 1735-1736 17d4-17d6 17d8-17db 1800-180a 180e 1940 1944-1945 19de-19ff 1a1e-1a1f 1aa0-1aa6
1aa8-1aad 1b5a-1b6a 1b74-1b7c 1bfc-1bff 1c3b-1c3f 1c7e-1c7f 1cc0-1cc7 1cd3 1fbd 1fbf-1fc1 1fcd-1fcf 1fdd-1fdf
1fed-1fef 1ffd-1ffe 2000-2064 206a-206f 207a-207e 208a-208e 20a0-20b9 20dd-20e0 20e2-20e4 2100-2101 2103-2106
2108-2109 2114 2116-2118 211e-2123 2125 2127 2129 212e 213a-213b 2140-2144 214a-214d 214f 2190-23f3 2400-2426
2440-244a 249c-24e9 2500-26ff 2701-2775 2794-2b4c 2b50-2b59 2ce5-2cea 2cf9-2cfc 2cfe-2cff 2d70 2e00-2e2e 2e30-2e3b
2e80-2e99 2e9b-2ef3 2f00-2fd5 2ff0-2ffb 3000-3004 3008-3020 3030 3036-3037 303d-303f 309b-309c 30a0 30fb 3190-3191
3196-319f 31c0-31e3 3200-321e 322a-3247 3250 3260-327f 328a-32b0 32c0-32fe 3300-33ff 4dc0-4dff a490-a4c6 a4fe-a4ff
a60d-a60f a670-a673 a67e a6f2-a6f7 a700-a716 a720-a721 a789-a78a a828-a82b a836-a839 a874-a877 a8ce-a8cf a8f8-a8fa
a92e-a92f a95f a9c1-a9cd a9de-a9df aa5c-aa5f aa77-aa79 aade-aadf aaf0-aaf1 abeb fb29 fbb2-fbc1 fd3e-fd3f fdfc-fdfd
fe10-fe19 fe30-fe52 fe54-fe66 fe68-fe6b feff ff01-ff0f ff1a-ff20 ff3b-ff40 ff5b-ff65 ffe0-ffe6 ffe8-ffee fff9-ffff
10100-10102 10137-1013f 10179-10189 10190-1019b 101d0-101fc 1039f 103d0 10857 1091f 1093f 10a50-10a58 10a7f
10b39-10b3f 11047-1104d 110bb-110c1 11140-11143 111c5-111c8 12470-12473 1d000-1d0f5 1d100-1d126 1d129-1d164
1d16a-1d16c 1d173-1d17a 1d183-1d184 1d18c-1d1a9 1d1ae-1d1dd 1d200-1d241 1d245 1d300-1d356 1d6c1 1d6db 1d6fb 1d715
1d735 1d74f 1d76f 1d789 1d7a9 1d7c3 1eef0-1eef1 1f000-1f02b 1f030-1f093 1f0a0-1f0ae 1f0b1-1f0be 1f0c1-1f0cf
1f0d1-1f0df 1f110-1f12e 1f130-1f16b 1f170-1f19a 1f1e6-1f202 1f210-1f23a 1f240-1f248 1f250-1f251 1f300-1f320
1f330-1f335 1f337-1f37c 1f380-1f393 1f3a0-1f3c4 1f3c6-1f3ca 1f3e0-1f3f0 1f400-1f43e 1f440 1f442-1f4f7 1f4f9-1f4fc
1f500-1f53d 1f540-1f543 1f550-1f567 1f5fb-1f640 1f645-1f64f 1f680-1f6c5 1f700-1f773 e0001 e0020-e007f
"""

# What characters become: ``c0-c5=61`` maps a range to one character, ``41-5a+20`` and ``10a0-10c5~5`` move it up or
# down by that number, ``/2`` takes every second character. ``=0`` are accents, which are dropped.
_FOLDED = """
41-5a+20 b5=3bc c0-c5=61 c6=e6 c7=63 c8-cb=65 cc-cf=69 d0=f0 d1=6e d2-d6=6f d8=f8 d9-dc=75 dd=79 de=fe e0-e5=61
e7=63 e8-eb=65 ec-ef=69 f1=6e f2-f6=6f f9-fc=75 fd=79 ff=79 100-105=61 106-10d=63 10e-10f=64 110=111 112-11b=65
11c-123=67 124-125=68 126=127 128-130=69 132=133 134-135=6a 136-137=6b 139-13e=6c 13f=140 141=142 143-148=6e 14a=14b
14c-151=6f 152=153 154-159=72 15a-161=73 162-165=74 166=167 168-173=75 174-175=77 176-178=79 179-17e=7a 17f=73
181=253 182=183 184=185 186=254 187=188 189=256 18a=257 18b=18c 18e=1dd 18f=259 190=25b 191=192 193=260 194=263
196=269 197=268 198=199 19c=26f 19d=272 19f=275 1a0-1a1=6f 1a2=1a3 1a4=1a5 1a6=280 1a7=1a8 1a9=283 1ac=1ad 1ae=288
1af-1b0=75 1b1=28a 1b2=28b 1b3=1b4 1b5=1b6 1b7=292 1b8=1b9 1bc=1bd 1c4-1c5=1c6 1c7-1c8=1c9 1ca-1cb=1cc 1cd-1ce=61
1cf-1d0=69 1d1-1d2=6f 1d3-1dc=75 1de-1df=61 1e0-1e4/2+1 1e6-1e7=67 1e8-1e9=6b 1ea-1ed=6f 1ee=1ef 1f0=6a 1f1-1f2=1f3
1f4-1f5=67 1f6=195 1f7=1bf 1f8-1f9=6e 1fa-1fb=61 1fc=1fd 1fe=1ff 200-203=61 204-207=65 208-20b=69 20c-20f=6f
210-213=72 214-217=75 218-219=73 21a-21b=74 21c=21d 21e-21f=68 220=19e 222=223 224=225 226-227=61 228-229=65
22a-231=6f 232-233=79 23a=2c65 23b=23c 23d=19a 23e=2c66 241=242 243=180 244=289 245=28c 246-24e/2+1 300-304=0
306-30c=0 30f=0 311=0 31b=0 323-328=0 32d-32e=0 330-331=0 345=3b9 370=371 372=373 376=377 386=3ac 388-38a+25 38c=3cc
38e=3cd 38f=3ce 391-3a1+20 3a3-3ab+20 3c2=3c3 3cf=3d7 3d0=3b2 3d1=3b8 3d5=3c6 3d6=3c0 3d8-3ee/2+1 3f0=3ba 3f1=3c1
3f4=3b8 3f5=3b5 3f7=3f8 3f9=3f2 3fa=3fb 3fd-3ff~82 400-40f+50 410-42f+20 460-480/2+1 48a-4be/2+1 4c0=4cf 4c1-4cd/2+1
4d0-526/2+1 531-556+30 10a0-10c5+1c60 10c7=2d27 10cd=2d2d 1e00-1e01=61 1e02-1e07=62 1e08-1e09=63 1e0a-1e13=64
1e14-1e1d=65 1e1e-1e1f=66 1e20-1e21=67 1e22-1e2b=68 1e2c-1e2f=69 1e30-1e35=6b 1e36-1e3d=6c 1e3e-1e43=6d 1e44-1e4b=6e
1e4c-1e53=6f 1e54-1e57=70 1e58-1e5f=72 1e60-1e69=73 1e6a-1e71=74 1e72-1e7b=75 1e7c-1e7f=76 1e80-1e89=77 1e8a-1e8d=78
1e8e-1e8f=79 1e90-1e95=7a 1e96=68 1e97=74 1e98=77 1e99=79 1e9b=73 1e9e=df 1ea0-1eb7=61 1eb8-1ec7=65 1ec8-1ecb=69
1ecc-1ee3=6f 1ee4-1ef1=75 1ef2-1ef9=79 1efa-1efe/2+1 1f08-1f0f~8 1f18-1f1d~8 1f28-1f2f~8 1f38-1f3f~8 1f48-1f4d~8
1f59-1f5f/2~8 1f68-1f6f~8 1f88-1f8f~8 1f98-1f9f~8 1fa8-1faf~8 1fb8=1fb0 1fb9=1fb1 1fba=1f70 1fbb=1f71 1fbc=1fb3
1fbe=3b9 1fc8-1fcb~56 1fcc=1fc3 1fd8=1fd0 1fd9=1fd1 1fda=1f76 1fdb=1f77 1fe8=1fe0 1fe9=1fe1 1fea=1f7a 1feb=1f7b
1fec=1fe5 1ff8=1f78 1ff9=1f79 1ffa=1f7c 1ffb=1f7d 1ffc=1ff3 2126=3c9 212a=6b 212b=61 2132=214e 2160-216f+10
2183=2184 2c00-2c2e+30 2c60=2c61 2c62=26b 2c63=1d7d 2c64=27d 2c67-2c6b/2+1 2c6d=251 2c6e=271 2c6f=250 2c70=252
2c72=2c73 2c75=2c76 2c7e=23f 2c7f=240 2c80-2ce2/2+1 2ceb=2cec 2ced=2cee 2cf2=2cf3 a640-a66c/2+1 a680-a696/2+1
a722-a72e/2+1 a732-a76e/2+1 a779=a77a a77b=a77c a77d=1d79 a77e-a786/2+1 a78b=a78c a78d=265 a790=a791 a792=a793
a7a0-a7a8/2+1 a7aa=266 ff21-ff3a+20 10400-10427+28
"""


# The runs of a text of ASCII alone, in lower case. A class of two ranges is searched several times as quickly as one of
# all separators.
_ASCII_RUN = re.compile("[0-9a-z]+")
# The same words return again and again: as many are remembered as notes in a few languages use.
_stem = lru_cache(1 << 16)(porter_stem)


def index_terms(text: str) -> list[str]:
    """Return the terms of a text in reading order, exactly as the full-text index of SQLite would have them."""
    if text.isascii():
        return list(map(_stem, _ASCII_RUN.findall(text.lower())))
    pattern, folded = _tables()
    return [_stem(run.translate(folded)) for run in pattern.findall(text)]


@cache
def _tables() -> tuple[re.Pattern[str], dict[int, str]]:
    """Return the pattern of a run and what its characters are folded to; made at the first use, which takes a while."""
    separators = [_read_range(entry) for entry in _SEPARATORS.split()]
    in_class = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in separators)
    folded: dict[int, str] = {}
    for entry in _FOLDED.split():
        folded |= _read_folding(entry)
    return re.compile(f"[^{in_class}]+"), folded


def _read_range(entry: str) -> tuple[int, int]:
    first, _, last = entry.partition("-")
    return int(first, 16), int(last or first, 16)


def _read_folding(entry: str) -> dict[int, str]:
    characters, sign, number = re.split("([=+~])", entry)
    span, _, step = characters.partition("/")
    first, last = _read_range(span)
    target = int(number, 16)
    if sign == "=":
        return dict.fromkeys(range(first, last + 1), chr(target) if target else "")
    offset = target if sign == "+" else -target
    return {code: chr(code + offset) for code in range(first, last + 1, int(step or 1))}
