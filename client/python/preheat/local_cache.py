"""The user's own folder, shared with the C++ client: blobs/ab/abcd..., results/<alias>, code/.

It only ever saves work: what cannot be read is absent, what cannot be written is not kept, and neither fails a call.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile

from preheat._proto import compile_pb2 as pb


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class LocalCache:
    def __init__(self, folder: str) -> None:
        self._root = pathlib.Path(folder) if folder else None

    def read_blob(self, name: str) -> bytes | None:
        """Checked against the digest; a file with other bytes is removed."""
        data = self._read(self._blob_path(name))
        if data is not None and digest(data) != name:
            self._blob_path(name).unlink(missing_ok=True)  # type: ignore[union-attr]
            return None
        return data

    def write_blob(self, name: str, data: bytes) -> None:
        path = self._blob_path(name)
        if path is not None and not path.exists():
            self._write(path, data)

    def has_blob(self, name: str) -> bool:
        path = self._blob_path(name)
        return path is not None and path.exists()

    def read_result(self, alias: str) -> pb.CompileResult | None:
        data = self._read(self._root and self._root / "results" / alias)
        try:
            return pb.CompileResult.FromString(data) if data else None
        except Exception:  # a torn file is an absent one
            return None

    def write_result(self, alias: str, result: pb.CompileResult) -> None:
        if self._root is None:
            return
        kept = pb.CompileResult()
        kept.CopyFrom(result)
        kept.blobs.clear()
        self._write(self._root / "results" / alias, kept.SerializeToString())

    def code_dir(self) -> str:
        """For the runtime's shared objects; "" when there is no cache or it cannot be written."""
        if self._root is None:
            return ""
        try:
            (self._root / "code").mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return ""
        return str(self._root / "code")

    def _blob_path(self, name: str) -> pathlib.Path | None:
        if self._root is None or len(name) != 64 or not name.isalnum():
            return None
        return self._root / "blobs" / name[:2] / name

    @staticmethod
    def _read(path: pathlib.Path | None) -> bytes | None:
        try:
            return path.read_bytes() if path else None
        except OSError:
            return None

    @staticmethod
    def _write(path: pathlib.Path, data: bytes) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as aside:
                aside.write(data)
            os.replace(aside.name, path)
        except OSError:
            pass
