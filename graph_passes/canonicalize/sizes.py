"""Sizes that are known in part: a number times dimensions whose symbols are known, plus a number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """factor * (product of symbols) + add."""

    factor: int = 0
    symbols: tuple[str, ...] = ()
    add: int = 0

    @property
    def number(self) -> int | None:
        return self.add if self.factor == 0 else None


def number(value: int) -> Size:
    return Size(add=int(value))


def plus(a: Size, b: Size) -> Size | None:
    if a.factor and b.factor and a.symbols != b.symbols:
        return None
    factor = a.factor + b.factor
    return Size(factor, (a.symbols or b.symbols) if factor else (), a.add + b.add)


def times(a: Size, b: Size) -> Size | None:
    if a.number is not None or b.number is not None:
        n, other = (a.add, b) if a.number is not None else (b.add, a)
        return Size(other.factor * n, other.symbols if n else (), other.add * n)
    if a.add or b.add:
        return None
    return Size(a.factor * b.factor, tuple(sorted(a.symbols + b.symbols)))


def divided(a: Size, b: Size) -> Size | None:
    """a / b, where it is known to leave no remainder."""
    if b.number is not None:
        n = b.add
        return Size(a.factor // n, a.symbols, a.add // n) if n and not (a.factor % n or a.add % n) else None
    if a == number(0):
        return None
    symbols = list(a.symbols)
    for symbol in b.symbols:
        if symbol not in symbols:
            return None
        symbols.remove(symbol)
    if a.add or b.add or a.factor % b.factor:
        return None
    factor = a.factor // b.factor
    return Size(factor, tuple(symbols)) if symbols else number(factor)


def product(sizes: tuple[Size, ...]) -> Size | None:
    result: Size | None = number(1)
    for size in sizes:
        result = times(result, size) if result is not None else None
    return result


def solved(before: tuple[Size, ...], target: tuple[Size, ...]) -> tuple[Size, ...] | None:
    """A reshape's target with its -1, if it has one, as what the number of elements leaves for it."""
    unknown = [i for i, size in enumerate(target) if size == number(-1)]
    if not unknown:
        return target
    total = product(before)
    rest = product(tuple(size for size in target if size != number(-1)))
    missing = divided(total, rest) if total is not None and rest is not None else None
    if missing is None or len(unknown) > 1:
        return None
    return tuple(missing if i in unknown else size for i, size in enumerate(target))
