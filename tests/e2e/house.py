"""`import house` gives tests/e2e/conftest.py to test folders that have a conftest of their own: pytest knows only one `conftest`."""
import importlib.util
import pathlib
import sys

_spec = importlib.util.spec_from_file_location("house", pathlib.Path(__file__).with_name("conftest.py"))
_module = importlib.util.module_from_spec(_spec)
sys.modules["house"] = _module
_spec.loader.exec_module(_module)
