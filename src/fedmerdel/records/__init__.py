"""Rows: opening tables, encoding and packing them. Nothing here ever leaves a site."""

from __future__ import annotations

from fedmerdel.records.collapse import collapse
from fedmerdel.records.encode import decode, encode
from fedmerdel.records.infer import infer_codebook
from fedmerdel.records.packing import PackedRows, Packing, plan_packing
from fedmerdel.records.tables import Table, open_table

__all__ = [
    "PackedRows",
    "Packing",
    "Table",
    "collapse",
    "decode",
    "encode",
    "infer_codebook",
    "open_table",
    "plan_packing",
]
