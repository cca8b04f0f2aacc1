"""What the tests of this folder share."""

from collections.abc import Iterator

import pytest

from mdrecall.embed.offline import OfflineEmbedder


@pytest.fixture(scope="module", autouse=True)
def one_vocabulary() -> Iterator[None]:
    """The words of the offline table are loaded once for all the memories opened here, not once for each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OfflineEmbedder, "_pieces", OfflineEmbedder()._pieces)
        yield
