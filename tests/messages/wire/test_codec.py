"""The codec's laws, checked with a few classes of this module."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, NamedTuple, NewType

import msgpack
import pytest

from flykka.messages.wire.codec import decode, encode
from flykka.messages.wire.errors import DeclarationError, DecodeError, EncodeError
from flykka.messages.wire.message import Message, Value, message, value
from flykka.messages.wire.ref import Ref

LeafId = NewType("LeafId", str)


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


@value("codec_test.leaf")
class Leaf(Value):
    leaf_id: LeafId
    size: int = 0


@value("codec_test.big_leaf")
class BigLeaf(Leaf):
    """A subclass, which is allowed wherever a leaf is allowed."""

    weight: float = 1.0


@value("codec_test.stone")
class Stone(Value):
    pass


@message("codec_test.tree")
class Tree(Message):
    """test -> test: one field of each kind."""

    name: str
    leaves: tuple[Leaf, ...] = ()
    colour: Colour | None = None
    height: float = 0.0
    pair: tuple[int, str] = (0, "")
    found: Leaf | Stone | None = None
    data: bytes | str | bool | None = None
    owner: Ref | None = None


@message("codec_test.wrapped")
class Wrapped(Message):
    message: Message


def the_wire_of(value: Value, **changes: object) -> bytes:
    """Return the bytes of `value` with some fields replaced without the codec; `...` removes a field."""
    wire = {**msgpack.unpackb(encode(value)), **changes}
    return bytes(msgpack.packb({name: item for name, item in wire.items() if item is not ...}))


@pytest.mark.parametrize(
    "value",
    [
        Stone(),
        Tree(name="ash", colour=Colour.GREEN, height=math.pi, pair=(7, "seven")),
        Tree(name="", leaves=(Leaf(leaf_id=LeafId("a")), BigLeaf(leaf_id=LeafId("b"), size=3, weight=0.5))),
        Tree(name="oak", found=Stone(), data=b"\x00\xff", owner=Ref("/user/forester", 3)),
        Tree(name="elm", found=Leaf(leaf_id=LeafId("c"), size=-(2**63)), data="text"),
        Tree(name="fir", found=Leaf(leaf_id=LeafId("d"), size=2**64 - 1), data=False),
        Wrapped(message=Wrapped(message=Tree(name="yew"))),
    ],
)
def test_a_value_round_trips(value: Value) -> None:
    wire = encode(value)

    back = decode(wire)

    assert back == value
    assert repr(back) == repr(value)


def test_equal_values_have_equal_bytes() -> None:
    written = Tree(name="ash", height=2, pair=(1, "x"))
    otherwise = Tree(pair=(1, "x"), height=2.0, name="ash")

    wires = {encode(written), encode(otherwise)}

    assert len(wires) == 1


def test_a_ref_is_created_by_the_resolver_of_the_receiving_system() -> None:
    class LivingRef(Ref):
        pass

    tree = decode(encode(Tree(name="oak", owner=LivingRef("/user/forester", 3))), resolve=LivingRef)

    assert isinstance(tree, Tree)
    assert isinstance(tree.owner, LivingRef)
    assert tree.owner == Ref("/user/forester", 3)


def test_fields_of_a_newer_peer_are_ignored() -> None:
    wire = the_wire_of(Leaf(leaf_id=LeafId("a"), size=3), shape="round", veins=[1, {"x": 2}])

    assert decode(wire) == Leaf(leaf_id=LeafId("a"), size=3)


def test_fields_that_an_older_peer_does_not_send_get_their_defaults() -> None:
    wire = the_wire_of(Leaf(leaf_id=LeafId("a"), size=3), size=...)

    assert decode(wire) == Leaf(leaf_id=LeafId("a"), size=0)


LEAF = Leaf(leaf_id=LeafId("a"))
TREE = Tree(name="ash")


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (the_wire_of(LEAF, size="3"), "codec_test.leaf: size: expected int, found str"),
        (the_wire_of(LEAF, size=True), "codec_test.leaf: size: expected int, found bool"),
        (the_wire_of(LEAF, leaf_id=None), "codec_test.leaf: leaf_id: expected str, found NoneType"),
        (the_wire_of(LEAF, leaf_id=...), "codec_test.leaf: leaf_id: the field is required, but missing"),
        (the_wire_of(TREE, height=2), "codec_test.tree: height: expected float, found int"),
        (the_wire_of(TREE, colour="blue"), "codec_test.tree: colour: 'blue' is no Colour"),
        (the_wire_of(TREE, colour=5), "codec_test.tree: colour: expected Colour or None, found int"),
        (the_wire_of(TREE, pair=[1]), "codec_test.tree: pair: expected 2 items, found 1"),
        (the_wire_of(TREE, pair=[1, 2]), "codec_test.tree: pair[1]: expected str, found int"),
        (the_wire_of(TREE, leaves={"": "codec_test.leaf"}), "leaves: expected tuple[Leaf, ...], found codec_test.leaf"),
        (the_wire_of(TREE, leaves=[{"": "codec_test.leaf"}]), "leaves[0].leaf_id: the field is required, but missing"),
        (the_wire_of(TREE, leaves=[{"": "codec_test.stone"}]), "leaves[0]: expected Leaf, found codec_test.stone"),
        (the_wire_of(TREE, found={"": "codec_test.tree"}), "found: expected Leaf or Stone, found codec_test.tree"),
        (the_wire_of(TREE, found={"": "codec_test.moss"}), "found: unknown tag 'codec_test.moss'"),
        (the_wire_of(TREE, found={"size": 1}), "found: the message has no tag"),
        (the_wire_of(TREE, found={"": [1]}), "found: the message has no tag"),
        (the_wire_of(TREE, owner=msgpack.ExtType(9, b"")), "owner: unknown extension type 9"),
        (the_wire_of(TREE, owner=msgpack.ExtType(1, b"")), "owner: malformed ref"),
        (the_wire_of(TREE, owner=msgpack.ExtType(1, msgpack.packb(["/user/x"]))), "owner: malformed ref"),
        (msgpack.packb({"": "codec_test.moss"}), "codec_test.moss: unknown tag 'codec_test.moss'"),
        (msgpack.packb([1, 2]), "no value: expected Value, found tuple"),
        (b"", "not the encoding of a value"),
        (b"\xc1", "not the encoding of a value"),
        (encode(LEAF) + b"\x00\x00", "codec_test.leaf: 2 trailing bytes"),
        (msgpack.packb({"": "codec_test.leaf", "leaf_id": b"\xff"}, use_bin_type=False), "not the encoding of a value"),
    ],
    ids=lambda argument: argument if isinstance(argument, str) else "",
)
def test_bytes_that_do_not_encode_a_value_are_refused_with_the_position(wire: bytes, said: str) -> None:
    with pytest.raises(DecodeError) as refusal:
        decode(wire)

    assert said in str(refusal.value)


def test_a_value_truncated_anywhere_is_refused() -> None:
    wire = encode(Tree(name="ash", leaves=(LEAF,), owner=Ref("/user/forester", 3)))

    for length in range(len(wire)):
        with pytest.raises(DecodeError):
            decode(wire[:length])


def test_unlimited_nesting_is_refused_in_both_directions() -> None:
    deep: Message = TREE
    for _ in range(400):
        deep = Wrapped(message=deep)
    endless: dict[str, Any] = {"": "codec_test.tree", "name": "ash"}
    for _ in range(500):
        endless = {"": "codec_test.wrapped", "message": endless}

    with pytest.raises(EncodeError, match="nested too deeply"):
        encode(deep)
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(msgpack.packb(endless))


class Sapling(Tree):
    """A subclass of a declared class, without its own declaration."""


class Pair(NamedTuple):
    number: int
    text: str


class Bare:
    pass


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": ValueError("alive")}, "Tree.name: expected str, got ValueError"),
        ({"name": Colour.RED}, "Tree.name: expected str, got Colour"),
        ({"name": "\ud800"}, "Tree.name: 'utf-8' codec can't encode"),
        ({"leaves": [LEAF]}, "Tree.leaves: expected tuple[Leaf, ...], got list"),
        ({"leaves": (LEAF, Stone())}, "Tree.leaves[1]: expected Leaf, got Stone"),
        ({"leaves": (Leaf(leaf_id=LeafId("a"), size=2**64),)}, "Tree.leaves[0].size: Integer value out of range"),
        ({"leaves": (Leaf(leaf_id=LeafId("a"), size=True),)}, "Tree.leaves[0].size: expected int, got bool"),
        ({"colour": "red"}, "Tree.colour: expected Colour or None, got str"),
        ({"height": 10**400}, "Tree.height: expected float, got an int beyond its range"),
        ({"pair": Pair(1, "x")}, "Tree.pair: expected tuple[int, str], got Pair"),
        ({"found": Bare()}, "Tree.found: expected Leaf or Stone or None, got Bare"),
        ({"owner": "/user/forester"}, "Tree.owner: expected Ref or None, got str"),
        ({"owner": Ref("/user/forester", 2**70)}, "Tree.owner: not an address"),
        ({"owner": Ref(["user", "forester"], 3)}, "Tree.owner: not an address"),  # type: ignore[arg-type]
    ],
)
def test_values_of_the_wrong_type_cannot_be_encoded(changes: dict[str, Any], said: str) -> None:
    tree = Tree(**{"name": "ash", **changes})

    with pytest.raises(EncodeError) as refusal:
        encode(tree)

    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (Sapling(name="ash"), "Sapling: Sapling is not declared with @value or @message"),
        (Wrapped(message=Sapling(name="ash")), "Wrapped.message: Sapling is not declared with @value or @message"),
        ("text", "str: expected Value, got str"),
        (Bare(), "Bare: expected Value, got Bare"),
    ],
)
def test_only_declared_values_can_be_encoded(thing: Any, said: str) -> None:
    with pytest.raises(EncodeError) as refusal:
        encode(thing)

    assert said in str(refusal.value)


@value("codec_test.with_mapping")
class WithMapping(Value):
    """A class with a mapping, which has no encoding."""

    sizes: dict[str, int]


@value("codec_test.ambiguous")
class Ambiguous(Value):
    """A class with a field that is a colour or a text; both types are encoded as str."""

    colour: Colour | str


@value("codec_test.homeless")
class Homeless(Value):
    where: Nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("undeclarable", "said"),
    [
        (WithMapping(sizes={}), "WithMapping.sizes: dict[str, int] cannot be encoded"),
        (Ambiguous(colour="red"), "Ambiguous.colour: the members of Colour or str cannot be distinguished"),
        (Homeless(where=1), "Homeless: name 'Nowhere' is not defined in the scope of the class declaration"),
    ],
)
def test_a_field_that_cannot_be_encoded_is_reported_with_its_class(undeclarable: Value, said: str) -> None:
    with pytest.raises(DeclarationError) as refusal:
        encode(undeclarable)

    assert said in str(refusal.value)


@value("codec_test.positive")
class Positive(Value):
    number: int

    def __post_init__(self) -> None:
        if self.number <= 0:
            raise ValueError("not above zero")


def test_values_refused_by_the_constructor_are_refused_from_the_wire() -> None:
    wire = the_wire_of(Positive(number=1), number=-1)

    with pytest.raises(DecodeError, match="refused by Positive: not above zero"):
        decode(wire)
