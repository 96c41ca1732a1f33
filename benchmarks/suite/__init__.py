"""The time-consuming operations compared with plain torch, the machine's ceilings and installed peers."""
