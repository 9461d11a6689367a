"""Bytes at an offset."""

from __future__ import annotations

from asyncloader.storage.atomic import AtomicFile
from asyncloader.storage.local import LocalFile
from asyncloader.storage.plan import ReadPlan, plan_reads

__all__ = ["AtomicFile", "LocalFile", "ReadPlan", "plan_reads"]
