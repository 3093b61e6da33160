"""The Hugging Face Hub, over `huggingface_hub`: configs, indexes and headers, never weights, never code.

Files go through the library's own cache, token and settings (HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_OFFLINE), so a
model that another tool has fetched needs no network. Headers are read by range requests and kept in the library's
assets cache. Whatever goes wrong is one KvcalcError with a hint; the token is sent where the library sends it and is
never printed.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from kvcalc.catalog.files.jsonfile import LARGEST_CONFIG_BYTES, parse_json, read_json
from kvcalc.catalog.headers.safetensors import INDEX, LARGEST_INDEX, SINGLE, Stored, read_header, read_index, total
from kvcalc.catalog.hub.calls import progress, quiet, within
from kvcalc.catalog.hub.errors import explained, status_of
from kvcalc.errors import KvcalcError
from kvcalc.units import format_bytes

READERS = 8  # range requests at a time
LIBRARY = "kvcalc"
SLOWEST = 250_000  # bytes a second that a large header may still come at
PATIENCE = 3  # a whole file may take this many times what the library bears of silence


class Repo:
    """One repository at one revision."""

    def __init__(self, name: str, revision: str | None = None) -> None:
        import huggingface_hub
        from huggingface_hub import constants, errors, utils

        self.name = name
        self.revision = revision
        self.commit: str | None = None  # known once a file of it was fetched
        self._hub: Any = huggingface_hub
        self._constants: Any = constants
        self._errors: Any = errors
        self._utils: Any = utils
        self.offline = bool(self._constants.HF_HUB_OFFLINE)
        try:
            self._utils.validate_repo_id(name)
        except errors.HFValidationError as error:
            raise self._explained(error, "config.json") from error

    @property
    def endpoint(self) -> str:
        return str(self._constants.ENDPOINT)

    @property
    def _patience(self) -> float:
        """Seconds of silence that the library bears."""
        return float(self._constants.HF_HUB_DOWNLOAD_TIMEOUT)

    @property
    def _deadline(self) -> float:
        """Seconds for the whole of one small file: a server that trickles never times out by itself."""
        return PATIENCE * self._patience

    @property
    def page(self) -> str:
        """The address of the repository, without what a URL may hold of a user and a password."""
        parts = urlsplit(self.endpoint)
        host = parts.hostname or ""
        return urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, f"/{self.name}", "", ""))

    def address(self, filename: str) -> str:
        """Where a reader can look at a file, at the commit that was read."""
        return f"{self.page}/blob/{self.commit or self.revision or 'main'}/{filename}"

    def json(self, filename: str, largest: int = LARGEST_CONFIG_BYTES) -> dict[str, Any] | None:
        """A JSON file of the repository; None where it has none of that name."""
        path = self.fetch(filename, largest)
        return None if path is None else read_json(path, f"{filename} of {self.name}", largest)

    def fetch(self, filename: str, largest: int = LARGEST_CONFIG_BYTES) -> Path | None:
        """A small file through the cache; None where the repository has none of that name."""
        cached = self._cached(filename)
        if self.offline or (cached is not None and self._at_commit()):
            if cached is None and self._known_missing(filename):
                return None
            return self._from_cache(filename, cached)
        try:
            size = self._size(filename)
        except Exception as error:
            if self._missing(error):
                return None
            if cached is not None and not self._refused(error):
                self.offline = True  # no network: what was fetched before still answers
                return self._from_cache(filename, cached)
            raise self._explained(error, filename) from error
        if size is not None and size > largest:
            raise KvcalcError(
                f"{filename} of {self.name} is {format_bytes(size)}: too large for a config",
                hint="is it the right repository?",
            )
        return self._download(filename)

    def _size(self, filename: str) -> int | None:
        ask = partial(
            self._hub.get_hf_file_metadata,
            self._url(filename),
            timeout=self._constants.HF_HUB_ETAG_TIMEOUT,
            library_name=LIBRARY,
        )
        meta = within(self._deadline, ask)
        return int(meta.size) if meta.size is not None else None

    def _download(self, filename: str) -> Path:
        fetch = partial(
            self._hub.hf_hub_download,
            self.name,
            filename,
            revision=self.commit or self.revision,
            endpoint=self.endpoint,
            library_name=LIBRARY,
        )
        try:
            with quiet(self._utils):
                path = Path(within(self._deadline, fetch))
        except Exception as error:
            raise self._explained(error, filename) from error
        self.commit = self.commit or _commit_of(path)
        return path

    def _url(self, filename: str) -> str:
        revision = self.commit or self.revision
        return str(self._hub.hf_hub_url(self.name, filename, revision=revision, endpoint=self.endpoint))

    # The cache ------------------------------------------------------------------------------------------------------

    def _at_commit(self) -> bool:
        return self.commit is not None or (self.revision is not None and len(self.revision) == 40)

    def _cached(self, filename: str) -> Path | None:
        found = self._hub.try_to_load_from_cache(self.name, filename, revision=self.commit or self.revision)
        return Path(found) if isinstance(found, str) else None

    def _known_missing(self, filename: str) -> bool:
        """Whether the repository has no such file, or the cache cannot tell, once its config was found there."""
        return self.commit is not None and self._cached(filename) is None

    def _from_cache(self, filename: str, cached: Path | None) -> Path:
        if cached is None:
            raise KvcalcError(
                f"{filename} of {self.name} is not in the cache, and the Hub is switched off (HF_HUB_OFFLINE)",
                hint="unset HF_HUB_OFFLINE once, or give a card's name or a config.json",
            )
        self.commit = self.commit or _commit_of(cached)
        return cached

    def _kept(self) -> Path | None:
        """Where what the headers of this commit say is kept."""
        if self.commit is None:
            return None
        assets = self._constants.HF_ASSETS_CACHE
        folder = self._hub.cached_assets_path(LIBRARY, self.name, self.commit, assets_dir=assets)
        return Path(folder) / "headers.json"

    # Headers --------------------------------------------------------------------------------------------------------

    def stored(self) -> tuple[Stored, str] | None:
        """What the safetensors files hold, and where that was read; None where the repository has none."""
        kept = self._kept()
        if kept is not None and kept.is_file():
            data = parse_json(kept.read_bytes(), str(kept))
            return Stored(int(data["bytes"]), dict(data["elements"]), dict(data.get("rows", {}))), str(data["read"])
        index = self.json(INDEX, LARGEST_INDEX)
        names, stated = read_index(index, f"{INDEX} of {self.name}") if index is not None else ([SINGLE], None)
        if self.offline:
            return None if stated is None else (stated, INDEX)
        parts = self._headers(names) if names else None
        if parts is None:
            return None if stated is None else (stated, INDEX)
        result = total(parts), f"headers of {len(names)} safetensors file{'s' if len(names) > 1 else ''}"
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            found = result[0]
            said = {"bytes": found.bytes, "elements": found.elements, "rows": found.rows, "read": result[1]}
            kept.write_text(json.dumps(said))
        return result

    def _headers(self, names: list[str]) -> list[Stored] | None:
        """The header of each file; None where a file is missing."""
        parts: list[Stored] = []
        what = f"{self.name}: safetensors headers"
        with ThreadPoolExecutor(READERS) as pool, progress(what, len(names), READERS) as step:
            for part in pool.map(self._header, names):
                if part is None:
                    return None
                parts.append(part)
                step(len(parts))
        return parts

    def _header(self, filename: str) -> Stored | None:
        try:
            return read_header(partial(self._range, filename), f"{filename} of {self.name}")
        except KvcalcError:
            raise
        except Exception as error:
            if self._missing(error):
                return None
            raise self._explained(error, filename) from error

    def read(self, filename: str, start: int, length: int) -> bytes:
        """Some bytes of a file, by a range request.

        Raises:
            KvcalcError: no such file, no network, or no answer in time.
        """
        if self.offline:
            raise KvcalcError(f"the header of {filename} needs the network, which is switched off (HF_HUB_OFFLINE)",
                              hint="unset HF_HUB_OFFLINE, or give a local file")  # fmt: skip
        try:
            return self._range(filename, start, length)
        except Exception as error:
            raise self._explained(error, filename) from error

    def _range(self, filename: str, start: int, length: int) -> bytes:
        """The bytes, before a deadline: a server that trickles, headers or body, is given up on."""
        return within(self._deadline + length / SLOWEST, partial(self._bytes, filename, start, length))

    def _bytes(self, filename: str, start: int, length: int) -> bytes:
        """A server that ignores the range and sends it all is read only as far as needed."""
        headers = self._utils.build_hf_headers(library_name=LIBRARY)
        headers |= {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        session = self._utils.get_session()
        url, timeout = self._url(filename), self._patience
        if callable(session.stream):  # httpx, huggingface_hub from 1.0 on; both drop the token at another host
            with session.stream("GET", url, headers=headers, timeout=timeout) as response:
                return self._body(response, response.iter_bytes(), start, length)
        with session.get(url, headers=headers, timeout=timeout, stream=True) as response:
            return self._body(response, response.iter_content(2**16), start, length)

    def _body(self, response: Any, chunks: Iterator[bytes], start: int, length: int) -> bytes:
        if response.status_code >= 400 and hasattr(response, "read"):
            response.read()
        self._utils.hf_raise_for_status(response)
        skip = start if response.status_code == 200 else 0
        data = b""
        for chunk in chunks:
            data += chunk
            if len(data) >= skip + length:
                break
        return data[skip : skip + length]

    def files(self) -> list[str]:
        """The names of the repository's files."""
        api = self._hub.HfApi(endpoint=self.endpoint, library_name=LIBRARY)
        ask = partial(api.model_info, self.name, revision=self.commit or self.revision, timeout=self._patience)
        try:
            info = within(self._deadline, ask)
        except Exception as error:
            raise self._explained(error, "the list of files") from error
        self.commit = self.commit or info.sha
        return [file.rfilename for file in info.siblings or ()]

    def _explained(self, error: Exception, what: str) -> KvcalcError:
        return explained(error, self._errors, self.name, self.revision, what, self.page)

    def _missing(self, error: Exception) -> bool:
        """Whether there is no such file. A mirror may say 404 and no more: a repository that is there lacks it."""
        bare = status_of(error) == 404 and self.commit is not None
        return bare or isinstance(error, self._errors.EntryNotFoundError)

    def _refused(self, error: Exception) -> bool:
        """The Hub answered, and the answer is no: the cache must not hide it."""
        errors = self._errors
        return isinstance(error, errors.RepositoryNotFoundError | errors.RevisionNotFoundError)


def _commit_of(path: Path) -> str | None:
    """The commit in a path of the cache: .../snapshots/<commit>/config.json."""
    parts = path.parts
    return parts[parts.index("snapshots") + 1] if "snapshots" in parts else None
