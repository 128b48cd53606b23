"""One exception class per kind of error."""

import builtins
import pickle

import firndb
import pytest
from firndb import _errors, _native


def test_every_kind_has_a_class_under_its_builtin_base() -> None:
    kinds = dict(_native.ERROR_KINDS)
    assert set(kinds) == set(_errors.BY_KIND)
    for kind, base in kinds.items():
        cls = _errors.BY_KIND[kind]
        assert issubclass(cls, firndb.FirnError)
        assert issubclass(cls, getattr(builtins, base))
        assert getattr(firndb, cls.__name__) is cls


def test_errors_have_a_message_and_a_path_and_can_be_pickled(tmp_path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        firndb.LogStore(tmp_path / "absent", "r")
    error = caught.value
    assert isinstance(error, firndb.NotFoundError)
    assert "absent" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.path, copy.offset) == (str(error), error.path, error.offset)
