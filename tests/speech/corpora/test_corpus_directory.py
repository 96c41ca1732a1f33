"""Archives: unpacked completely, and only below their directory."""

from __future__ import annotations

import stat
import zipfile

import pytest

from bochner.speech.corpora.corpus_directory import source_directory, unpack


def archive(path, *members):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def test_an_archive_is_unpacked_once(tmp_path):
    made = archive(tmp_path / "a.zip", ("./", ""), ("x/1.txt", "one"), ("x/a:b.txt", "two"))
    folder = source_directory(made, tmp_path / "corpus")
    assert (folder / "x" / "1.txt").read_text() == "one"
    (folder / "x" / "1.txt").write_text("kept")
    assert (source_directory(made, tmp_path / "corpus") / "x" / "1.txt").read_text() == "kept"
    assert source_directory(folder, tmp_path) == folder


@pytest.mark.parametrize("name", ["../evil.txt", "/evil.txt", "x/../../evil.txt", "C:/evil.txt", "..\\evil.txt"])
def test_a_member_outside_is_refused_and_nothing_is_unpacked(tmp_path, name):
    made = archive(tmp_path / "a.zip", ("good.txt", "1"), (name, "2"))
    with pytest.raises(ValueError, match="outside of its directory; refused"):
        unpack(made, tmp_path / "into")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.zip"]


def test_links_are_refused(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(ValueError, match="is a link; refused"):
        unpack(archive(tmp_path / "a.zip", (link, "/etc/passwd")), tmp_path / "into")


def test_damaged_and_other_files_are_named(tmp_path):
    made = archive(tmp_path / "a.zip", ("1.txt", "a" * 1000))
    content = bytearray(made.read_bytes())
    content[100] ^= 0xFF
    made.write_bytes(content)
    with pytest.raises(ValueError, match=r"a.zip cannot be unpacked: Bad CRC"):
        unpack(made, tmp_path / "into")
    assert not (tmp_path / "into").exists()
    (tmp_path / "b.zip").write_text("no archive")
    with pytest.raises(ValueError, match="directory or a zip archive"):
        source_directory(tmp_path / "b.zip", tmp_path)


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file, file.open("zeros", "w") as member:
        for _ in range(80):
            member.write(bytes(2**20))
    with pytest.raises(ValueError, match=r"a\.zip: .* bytes would be unpacked to 83,886,080"):
        unpack(tmp_path / "a.zip", tmp_path / "into")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_an_archive_that_declares_smaller_sizes_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.wav", bytes(2**20))
    content = (tmp_path / "a.zip").read_bytes()
    assert content.count((2**20).to_bytes(4, "little")) == 2  # before the data and in the directory at the end
    (tmp_path / "a.zip").write_bytes(content.replace((2**20).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"a.zip cannot be unpacked: .*; it is damaged"):
        unpack(tmp_path / "a.zip", tmp_path / "into")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
