"""Every reader."""

from __future__ import annotations

from tests.fuzz.reader import Reader
from tests.fuzz.rows import ROW_READERS
from tests.fuzz.settings import SETTINGS_READERS
from tests.fuzz.speech import SPEECH_READERS
from tests.fuzz.stored import STORED_READERS

READERS: dict[str, Reader] = {**ROW_READERS, **STORED_READERS, **SETTINGS_READERS, **SPEECH_READERS}
