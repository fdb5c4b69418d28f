"""What people look at: pages that open anywhere, made from evidence alone. Pure: nothing is executed."""

from repotrial.report._run_page import build_run_page

__all__ = ["build_run_page"]
