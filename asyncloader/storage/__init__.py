"""Bytes at an offset."""

from __future__ import annotations

from asyncloader.storage.atomic import AtomicFile
from asyncloader.storage.local import LocalFile
from asyncloader.storage.plan import MAX_GAP, ReadPlan, merge_neighbours, plan_reads

__all__ = ["MAX_GAP", "AtomicFile", "LocalFile", "ReadPlan", "merge_neighbours", "plan_reads"]
