"""Test kits: their SoC names, the tensors they pass to a golden function, the plug-in files they load."""
