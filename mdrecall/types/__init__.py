"""Frozen values that cross borders between the rooms."""

from mdrecall.types.documents import (
    NO_FIELDS,
    NO_MARKS,
    Appended,
    Chunk,
    Collection,
    Document,
    Fields,
    IndexedChunk,
    Issue,
    Link,
    Listing,
    Marks,
    NoteFile,
    Origin,
    SourceName,
    Stamp,
    StoredChunk,
    StoredDocument,
    format_citation,
)
from mdrecall.types.search import (
    MODES,
    Confidence,
    FallbackNotice,
    Match,
    MemoryReport,
    Mode,
    ReadResult,
    Reason,
    SearchAnswer,
    SearchRequest,
    SearchResult,
    Term,
    Why,
    check_like,
    confidence_of,
)
from mdrecall.types.sync import (
    ContentSizes,
    FileChange,
    Holder,
    Probe,
    Progress,
    ProgressCallback,
    SourceCount,
    SourceStatus,
    Status,
    Stop,
    SyncReport,
    WatchEvent,
    never,
)
from mdrecall.types.transcripts import (
    EVERYTHING,
    Conversation,
    HostRecord,
    MessagePage,
    Step,
    Transcript,
    TranscriptRecord,
    Visible,
)
from mdrecall.types.vectors import (
    Embedding,
    EmbedInput,
    Job,
    JobState,
    PendingChunk,
    Secret,
    Space,
    StoredSpace,
    Traits,
)

#: What docs/api.md promises; all the others are for the rooms.
__all__ = ["ProgressCallback", "WatchEvent"]
