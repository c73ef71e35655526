"""The first thing any Python interpreter of a job runs: it readies weft's runtime and steps out of the way.

This directory comes first on PYTHONPATH. The sitecustomize that it hides, if the job has one, is loaded in turn,
and the script sees the sys.path it would have seen. Every interpreter a job starts comes through here, so it loads next
to nothing. Python 2 can read it too: such an interpreter runs as if bare.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RUNTIME = os.path.dirname(HERE)


class Packages:
    """Finds the runtime by its private name, and weft itself where a script imports it but it is not installed."""

    def __init__(self, folders):
        self.folders = folders

    def find_spec(self, name, path=None, target=None):
        if name not in self.folders:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(name, path, target)
            if found is not None and found.has_location:  # a mere folder of that name, such as a checkout, is no weft
                return found
        from importlib.machinery import ModuleSpec, SourceFileLoader

        file = os.path.join(self.folders[name], "__init__.py")
        spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file, is_package=True)
        spec.has_location = True
        spec.submodule_search_locations.append(self.folders[name])
        return spec


def _chain():
    """Load the sitecustomize that ours hides, if there is one; it takes our place in sys.modules."""
    ours = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        sys.modules["sitecustomize"] = ours
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise


sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != HERE]
if os.environ.get("WEFT_PAGE") and sys.version_info >= (3, 8):
    sys.meta_path.insert(0, Packages({"weft_runtime": RUNTIME, "weft": os.path.dirname(RUNTIME)}))
    from weft_runtime import import_hook

    import_hook.begin(os.environ["WEFT_PAGE"])
_chain()
