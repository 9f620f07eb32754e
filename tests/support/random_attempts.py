"""Writes random programs with `try` around generated values; see `support.random_branches`."""

from __future__ import annotations

from support.random_branches import BranchWriter


class AttemptWriter(BranchWriter):
    """Every fourth statement is a `try`, with several kinds of handlers, `else` and `finally`."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.caught = 0

    def statement(self) -> None:
        if self.depth < 5 and self.budget > 0 and self.random.random() < 0.3:
            self.budget -= 1
            self._attempt()
        elif self.caught and self.random.random() < 0.15:
            self.line(self.pick(["raise", "if t0 == 'yes': raise", f"t0 = str({self.bound()})"]))
        else:
            super().statement()

    def bound(self) -> str:
        return self.pick(["s['g0']", "t0", "ask(t0)['a']", "sgc.call(shout, t0)"])

    def _attempt(self) -> None:
        self.line("try:")
        caught, self.caught = self.caught, 0
        self.depth += 1
        self.line(
            self.pick(
                [
                    f"t0 = {self.bound()}",
                    "t0 = t0 + '/' + s['g0']",
                    "n0 = int(t0)",
                    f"n0 += len({self.bound()})",
                ]
            )
        )
        self.depth -= 1
        self.inner()
        self.caught = caught
        handled = self.random.random() < 0.9
        if handled:
            self._handlers()
        if handled and self.random.random() < 0.3:
            self.line("else:")
            self.inner(2)
        if not handled or self.random.random() < 0.15:
            self.line("finally:")
            self.depth += 1
            self.line(f"n0 += {self.random.randint(1, 3)}")
            self._gen()
            self.texts.pop()
            self.depth -= 1

    def _handlers(self) -> None:
        kinds = ["sgc.GenerationError"] * 4 + [
            "ValueError",
            "Exception",
            "(ValueError, sgc.GenerationError)",
            "sgc.SgcError",
        ]
        for kind in dict.fromkeys(self.pick(kinds) for _ in range(self.random.randint(1, 2))):
            names = self.random.random() < 0.4
            self.line(f"except {kind}{' as e' if names else ''}:")
            self.caught += 1
            self.depth += 1
            if names:
                forms = ["t0 = str(e)", "l0.append(f'{e}!')", "s += str(e)"]
                forms += ["t0 = e.node"] if kind == "sgc.GenerationError" else []
                self.line(self.pick(forms))
            else:
                self.line(self.pick(["t0 = 'none'", "s += 'sorry'", "pass"]))
            self.depth -= 1
            self.inner(2)
            self.caught -= 1
