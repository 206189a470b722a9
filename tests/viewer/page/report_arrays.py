"""The arrays of a sample, looked up as the page looks them up: what a test compares the page with."""

import numpy as np

from sample_report import Blob


class TraceArrays:
    def __init__(self, meta, blob, index=0):
        self.entry, self.blob = meta["traces"][index], blob
        self.L, self.P, self.E = (
            self.entry["num_layers"],
            self.entry["setting"]["ranks"],
            self.entry["num_experts"],
        )

    def of(self, reference):
        return np.frombuffer(self.blob, Blob.TYPES[reference["type"]], reference["count"], reference["at"])

    def cells(self, name):
        return self.of(self.entry["cells"][name])

    def details(self, name):
        return self.of(self.entry["details"][name])

    def worst_cell(self):
        cells = self.details("cell")
        return int(cells[self.cells("imbalance_before")[cells].argmax()])

    def detail_of(self, cell):
        return int(np.flatnonzero(self.details("cell") == cell)[0])

    def rank_rows(self, detail, side):
        return self.details(f"rows_{side}").reshape(-1, self.P)[detail].tolist()

    def replicas(self, detail):
        """{(expert, rank): rows} of the instances that are not on their owner."""
        first, last = self.details("instance_begin")[detail : detail + 2]
        found = zip(
            *(self.details(f"instance_{name}")[first:last].tolist() for name in ("expert", "rank", "rows"))
        )
        return {(e, r): rows for e, r, rows in found if self.entry["owner_of"][e] != r}
