"""Recordings that end before the end that their own format states."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import BinaryIO

from bochner.speech.text_files import FilePath

MIN_UNKNOWN_SIZE = 0x7FFFF000  # bytes: what programs that write a stream put into its header for a size not known yet
MIN_MISSING = 0.01  # seconds
MAX_PAGE = 65_307  # bytes of an Ogg page
MPEG_RATES = (44100, 48000, 32000)  # Hz of MPEG 1; half of these for MPEG 2, a quarter for MPEG 2.5


def truncation(path: FilePath) -> str | None:
    """A description of what a file lacks of its samples; None for whole files, and if the format does not tell.

    WAV, AIFF, NIST SPHERE and MP3 files (with a Xing header) state their length, the last page of an Ogg file is marked
    as such. libsndfile reads these files as far as they go, without an error; it refuses FLAC files that end early.
    """
    with Path(path).open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        start = file.read(12)
        match start[:4], start[8:]:
            case b"RIFF", b"WAVE":
                return _of_wav(file, size)
            case b"FORM", b"AIFF" | b"AIFC":
                return _of_aiff(file, size)
            case b"NIST", _:
                return _of_sphere(file, size)
            case b"OggS", _:
                return _of_ogg(file, size)
        return _of_mp3(file, size)


def _lack(held: int, stated: int, seconds: float) -> str | None:
    """The description of a file that holds `held` of the `stated` bytes, which last for `seconds`."""
    if not 0 < stated < MIN_UNKNOWN_SIZE or seconds * (1 - held / stated) < MIN_MISSING:
        return None
    return f"truncated: it holds {seconds * held / stated:.2f} s, its header states {seconds:.2f} s"


def _of_wav(file: BinaryIO, size: int) -> str | None:
    rate = 0  # bytes per second
    while len(header := file.read(8)) == 8:
        name, length = struct.unpack("<4sI", header)
        begin = file.tell()
        if name == b"fmt ":
            rate = int.from_bytes(file.read(12)[8:], "little")
        elif name == b"data":
            return _lack(size - begin, length, length / rate) if rate else None
        file.seek(begin + length + length % 2)
    return None


def _of_aiff(file: BinaryIO, size: int) -> str | None:
    seconds = 0.0
    while len(header := file.read(8)) == 8:
        name, length = struct.unpack(">4sI", header)
        begin = file.tell()
        if name == b"COMM":
            _, frames, _, exponent, mantissa = struct.unpack(">hIhHQ", file.read(18))
            seconds = frames / (mantissa * 2.0 ** (exponent - 16446)) if mantissa else 0.0  # an 80-bit float
        elif name == b"SSND":
            return _lack(size - begin, length, seconds)
        file.seek(begin + length + length % 2)
    return None


def _of_sphere(file: BinaryIO, size: int) -> str | None:
    file.seek(0)
    header = file.read(1024)
    values = {name: int(value) for name, value in re.findall(rb"(\w+) -i (\d+)", header)}
    names = (b"sample_rate", b"sample_count", b"channel_count", b"sample_n_bytes")
    rate, count, channels, width = (values.get(name, 0) for name in names)
    return _lack(size - len(header), count * channels * width, count / rate) if rate else None


def _of_ogg(file: BinaryIO, size: int) -> str | None:
    file.seek(max(0, size - 2 * MAX_PAGE))
    content = file.read()
    page = content[content.rfind(b"OggS") :]
    lengths = page[27 : 27 + page[26]] if len(page) > 26 else b""
    is_whole = len(page) > 26 and len(lengths) == page[26] and len(page) >= 27 + len(lengths) + sum(lengths)
    return None if is_whole and page[5] & 4 else "truncated: its last page is missing"


def _of_mp3(file: BinaryIO, size: int) -> str | None:
    file.seek(0)
    if (tag := file.read(10))[:3] == b"ID3":
        *_, a, b, c, d = tag  # seven bits each
        file.seek(10 + (a << 21 | b << 14 | c << 7 | d))
    else:
        file.seek(0)
    begin, frame = file.tell(), file.read(64)
    if len(frame) < 64 or frame[0] != 0xFF or frame[1] & 0xE0 != 0xE0 or frame[2] >> 2 & 3 == 3:
        return None
    version, is_mono = frame[1] >> 3 & 3, frame[3] >> 6 == 3
    is_first = version == 3
    place = 4 + ((17 if is_mono else 32) if is_first else (9 if is_mono else 17))
    name, flags, frames, stated = struct.unpack(">4sIII", frame[place : place + 16])
    if name not in (b"Xing", b"Info") or flags & 3 != 3:
        return None
    rate = MPEG_RATES[frame[2] >> 2 & 3] >> {3: 0, 2: 1}.get(version, 2)
    return _lack(size - begin, stated, frames * (1152 if is_first else 576) / rate)
