"""Waits of a fixed length in the tests' code, which cost their whole length each time, on the fastest machine too."""

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST_S = 5.0
UNITS = {"sleep": 1.0, "wait_for_timeout": 0.001}
"""{a function that waits: the seconds of one of what it is given}"""

OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Wait:
    file: Path
    line: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.file}:{self.line} waits for {self.seconds:g} s"


def long_waits(file: Path) -> list[Wait]:
    """Those of `LONGEST_S` or more, given as a number or as a constant of the file, outside of what is marked slow."""
    tree = ast.parse(file.read_text())
    if any(_names(node, "pytestmark") and _is_marked(node.value) for node in tree.body if isinstance(node, ast.Assign)):
        return []
    constants = {
        target.id: float(node.value.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, int | float)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = [Wait(file, call.lineno, _seconds(call, constants)) for call in _calls(tree)]
    return [wait for wait in found if wait.seconds >= LONGEST_S]


def _names(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _is_marked(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "slow" for each in ast.walk(node))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """Of functions that wait, in what is not marked."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    if any(map(_is_marked, decorators)):
        return
    if isinstance(node, ast.Call) and node.args and _name(node.func) in UNITS:
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _calls(child)


def _name(function: ast.expr) -> str:
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _seconds(call: ast.Call, constants: dict[str, float]) -> float:
    return (_value(call.args[0], constants) or 0.0) * UNITS[_name(call.func)]


def _value(node: ast.expr, constants: dict[str, float]) -> float | None:
    """None where it depends on more than numbers; of a function's arguments, such as a range's ends, the greatest."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.Name(id=name):
            return constants.get(name)
        case ast.BinOp(left=left, right=right, op=op):
            values = (_value(left, constants), _value(right, constants))
            return OPERATIONS[type(op)](*values) if None not in values and type(op) in OPERATIONS else None
        case ast.Call(args=arguments):
            return max((value for each in arguments if (value := _value(each, constants)) is not None), default=None)
    return None
