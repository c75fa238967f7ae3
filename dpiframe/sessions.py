"""Running an optimized model: ordinary ONNX Runtime sessions with the library registered."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpiframe.errors import BadIdsError, MissingDependencyError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnxruntime

    from dpiframe.custom_ops import BadIdCount

# The library writes these entries into the options it is registered on.
_TAG = "dpiframe.session"
_LIBRARY = "dpiframe.library"


def require_onnxruntime() -> None:
    """Raise MissingDependencyError where onnxruntime isn't installed. Doesn't import it."""
    if find_spec("onnxruntime") is None:
        raise MissingDependencyError(
            "onnxruntime is not installed: pip install 'dpiframe[cpu]', or 'dpiframe[gpu]' for NVIDIA GPUs"
        )


def may_have_cuda() -> bool:
    """Whether the installed onnxruntime (which this doesn't import) brings its CUDA provider, which may find no GPU."""
    spec = find_spec("onnxruntime")
    folders = spec.submodule_search_locations or [] if spec is not None else []
    return any(Path(folder, "capi", "libonnxruntime_providers_cuda.so").exists() for folder in folders)


def library_path() -> str:
    """The custom-op library's file, for `SessionOptions.register_custom_ops_library`."""
    from dpiframe.custom_ops import library_path as path

    return str(path())


def session_options() -> onnxruntime.SessionOptions:
    """New session options with the library registered. Raises MissingDependencyError without onnxruntime."""
    require_onnxruntime()
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.register_custom_ops_library(library_path())
    return options


def InferenceSession(  # noqa: N802 (it stands for onnxruntime.InferenceSession)
    path: str | Path | bytes,
    providers: Sequence[str | tuple[str, dict[str, Any]]] | None = None,
    *,
    sess_options: onnxruntime.SessionOptions | None = None,
    **kwargs: Any,
) -> onnxruntime.InferenceSession:
    """A plain `onnxruntime.InferenceSession` with the library registered.

    path: the model's file, or its bytes. providers: as ONNX Runtime takes them; by default CUDA where this ONNX Runtime
    has it, then CPU. sess_options: options of your own, on which the library is not yet registered. Other arguments go
    to ONNX Runtime as they are.
    """
    if sess_options is None:
        sess_options = session_options()
    else:
        sess_options.register_custom_ops_library(library_path())
    import onnxruntime as ort

    if providers is None:
        wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
        providers = [name for name in wanted if name in ort.get_available_providers()]
    model = path if isinstance(path, bytes) else str(path)
    return ort.InferenceSession(model, sess_options, providers=list(providers), **kwargs)


def bad_ids(session: onnxruntime.InferenceSession) -> list[BadIdCount]:
    """How often each lookup of a session met an id outside its table, by node and field; lookups without any are left
    out.

    Counted since the session was made or its counts were reset, together with other sessions made from the same options
    object. Ids count under every policy; under "error", a CPU session also fails the run. Raises UsageError for a
    session without the library.
    """
    from dpiframe.custom_ops import bad_id_counts

    with _counts_of(session) as (tag, library):
        return bad_id_counts(tag, library)


def reset_bad_ids(session: onnxruntime.InferenceSession) -> None:
    """Set the counts of `bad_ids` to 0. Raises UsageError for a session without the library."""
    from dpiframe.custom_ops import reset_bad_id_counts

    with _counts_of(session) as (tag, library):
        reset_bad_id_counts(tag, library)


@contextmanager
def _counts_of(session: onnxruntime.InferenceSession) -> Iterator[tuple[str, str | None]]:
    tag = _entry(session, _TAG)
    if tag is None:
        raise UsageError("the session was made without dpiframe's library; register it with dpiframe.session_options()")
    try:
        yield tag, _entry(session, _LIBRARY)
    except (LookupError, OSError) as error:
        raise UsageError(f"the session's counts can't be read: {error}") from None


def _entry(session: onnxruntime.InferenceSession, key: str) -> str | None:
    try:
        value: str = session.get_session_options().get_session_config_entry(key)
    except Exception:
        # ONNX Runtime raises a bare Exception or RuntimeError for an entry that isn't there, depending on its release.
        return None
    return value


def raise_on_bad_ids(session: onnxruntime.InferenceSession) -> None:
    """Raise BadIdsError where any lookup of the session met an id outside its table, naming node, field and count."""
    counts = bad_ids(session)
    if counts:
        total = sum(count.count for count in counts)
        each = "; ".join(f"node '{c.node}', {c.lookup}: {c.count}" for c in counts)
        raise BadIdsError(f"{total} ids outside their tables: {each}")
