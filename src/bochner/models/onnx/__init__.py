"""Models as ONNX files, for runtimes without Python or torch."""

from bochner.models.onnx.export import export_onnx

__all__ = ["export_onnx"]
