"""How programs are scheduled for a GPU: what is computed once, where it is kept, how many passes there are."""

from __future__ import annotations

import time
from typing import Any

import pytest

kernels: Any = pytest.importorskip("dpiframe.custom_ops._cuda_kernels", reason="needs a build with CUDA")

HEAD = "elementwise 1\nrows 1\n"
SECOND_ORDER = HEAD + (
    "input f32 x 39 16\nsum f32 16 : 0 0\nmul f32 16 : 1 1\nmul f32 39 16 : 0 0\nsum f32 16 : 3 0\nsub f32 16 : 2 4\n"
    "sum f32 1 : 5 0\nconst f32 5e-1\nmul f32 1 : 6 7\noutput 8\n"
)
SOFTMAX = HEAD + (
    "input f32 x 48\nmax f32 1 : 0 0\nsub f32 48 : 0 1\nexp f32 48 : 2\nsum f32 1 : 3 0\ndiv f32 48 : 3 4\noutput 5\n"
)
CROSS = HEAD + (
    "input f32 x 624\ninput f32 - 624\ninput f32 - 624\nmul f32 624 : 0 1\nsum f32 1 : 3 0\nmul f32 624 : 0 4\n"
    "add f32 624 : 5 2\nadd f32 624 : 6 0\noutput 7\n"
)
INTERACTION = HEAD + (
    "input f32 x 1 16\ninput f32 x 26 16\njoin f32 27 16 : 0 0 1\nview f32 27 27 16 : 2 0 16 0 1\n"
    "view f32 27 27 16 : 2 0 0 16 1\nmul f32 27 27 16 : 3 4\nsum f32 27 27 : 5 2\n"
    f"pick f32 351 : 6 {' '.join(str(i * 27 + j) for i in range(27) for j in range(i))}\noutput 7\n"
)


def homes(schedule: dict[str, Any]) -> dict[int, str]:
    """Of what is kept."""
    return {value: home for value, home in enumerate(schedule["homes"]) if home != "nowhere"}


def passes_over(schedule: dict[str, Any], elements: int) -> int:
    """Loops over so many elements of a row."""
    return sum(stage["outer"] * stage["inner"] == elements for stage in schedule["stages"])


def test_without_reductions_each_thread_has_its_own_elements() -> None:
    schedule = kernels.elementwise_schedule(
        HEAD
        + "input f32 x 64\ninput f32 - 64\nadd f32 64 : 0 1\nexp f32 64 : 2\nmul f32 64 : 3 0\noutput 4\noutput 2\n"
    )
    assert schedule["lanes"] == 0
    assert homes(schedule) == {}
    (stage,) = schedule["stages"]  # both outputs in one pass
    assert stage["outputs"] == [0, 1]
    assert stage["width"] == 4


def test_widths_follow_sizes_and_types() -> None:
    def width(kind: str, size: int) -> int:
        text = HEAD + f"input {kind} x {size}\nadd {kind} {size} : 0 0\noutput 1\n"
        return int(kernels.elementwise_schedule(text)["stages"][0]["width"])

    assert [width("f32", size) for size in (1, 2, 3, 6, 8, 39)] == [1, 2, 1, 2, 4, 1]
    assert [width("f16", size) for size in (8, 12, 16, 3)] == [8, 4, 8, 1]


def test_sums_of_the_same_axes_share_a_pass() -> None:
    schedule = kernels.elementwise_schedule(SECOND_ORDER)
    assert passes_over(schedule, 39 * 16) == 1
    assert homes(schedule) == {1: "shared", 4: "shared", 6: "every"}


def test_exponentials_are_computed_once_and_stay_in_registers() -> None:
    schedule = kernels.elementwise_schedule(SOFTMAX)
    assert homes(schedule)[3] == "lane"
    assert homes(schedule)[0] == "lane"  # the input is read once
    assert schedule["shared_bytes"] == 0


def test_cheap_values_are_computed_again() -> None:
    """One pass for the product, one for the output; the row stays in registers, products do not."""
    schedule = kernels.elementwise_schedule(CROSS)
    assert passes_over(schedule, 624) == 2
    kept = homes(schedule)
    assert kept[0] == "lane"
    assert kept[4] == "every"
    assert 3 not in kept
    assert 6 not in kept


def test_products_of_all_pairs_are_formed_only_where_they_are_picked() -> None:
    schedule = kernels.elementwise_schedule(INTERACTION)
    assert homes(schedule) == {2: "shared"}  # the operands, which each pair reads
    assert max(stage["outer"] * stage["inner"] for stage in schedule["stages"]) == 27 * 16


def test_an_expensive_value_of_many_readers_is_kept_without_any_reduction() -> None:
    text = HEAD + "input f32 x 16\ninput f32 x 40 16\ntanh f32 16 : 0\nmul f32 40 16 : 2 1\noutput 3\n"
    assert homes(kernels.elementwise_schedule(text)) == {2: "shared"}
    assert homes(kernels.elementwise_schedule(text.replace("tanh", "neg"))) == {}


def test_wide_rows_take_whole_blocks() -> None:
    wide = SOFTMAX.replace("48", "40000")
    assert kernels.elementwise_schedule(wide)["lanes"] > 32
    assert kernels.elementwise_schedule(SOFTMAX.replace("48", "8"))["lanes"] <= 8


def cross_layers(elements: int) -> str:
    """Three cross layers without a bias: each reads a sum over all that the one before it gave."""
    lines = [f"input f32 x {elements}", *[f"input f32 - {elements}"] * 3]
    last = 0
    for weights in (1, 2, 3):
        first = len(lines)
        lines += [f"mul f32 {elements} : {last} {weights}", f"sum f32 1 : {first} 0"]
        lines += [f"mul f32 {elements} : 0 {first + 1}", f"add f32 {elements} : {first + 2} {last}"]
        last = first + 3
    return HEAD + "\n".join([*lines, f"output {last}\n"])


def test_wide_cross_layers_stay_in_a_blocks_registers() -> None:
    """What doesn't fit into shared memory would take ten times as long in global memory."""
    schedule = kernels.elementwise_schedule(cross_layers(16000))
    assert schedule["lanes"] == 512
    assert (schedule["shared_bytes"], schedule["scratch_bytes"]) == (0, 0)
    assert homes(schedule)[0] == "lane"
    assert {stage["width"] for stage in schedule["stages"]} == {4}


def test_what_is_cheap_and_fits_nowhere_is_computed_again() -> None:
    schedule = kernels.elementwise_schedule(cross_layers(40000))
    assert schedule["scratch_bytes"] == 0
    assert "shared" not in homes(schedule).values()


def test_single_elements_are_not_read_for_a_sixtieth_fewer_rounds() -> None:
    """4000 runs of four leave a lane of 256 with 64 elements, 16000 elements with 63."""
    assert {stage["width"] for stage in kernels.elementwise_schedule(cross_layers(16000), 256)["stages"]} == {4}


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32, 128, 256, 512])
def test_what_shared_memory_lacks_lies_in_scratch_memory(lanes: int) -> None:
    text = HEAD + (
        "input f32 x 300 4\nview f32 300 300 4 : 0 0 4 0 1\nview f32 300 300 4 : 0 0 0 4 1\nmul f32 300 300 4 : 1 2\n"
        "sum f32 300 300 : 3 2\nexp f32 300 300 : 4\nsum f32 300 : 5 0\nsum f32 300 : 5 1\noutput 6\noutput 7\n"
    )
    schedule = kernels.elementwise_schedule(text, lanes)
    assert schedule["scratch_bytes"] >= 300 * 300 * 4
    teams = max(64 // lanes, 1)
    assert schedule["shared_bytes"] * teams <= 48 << 10
    for stage in schedule["stages"]:
        if stage["kind"] == "reduction":
            assert stage["outer_lanes"] * stage["inner_lanes"] == lanes


@pytest.mark.parametrize("lanes", [128, 256, 512])
def test_shared_memory_has_room_for_what_a_blocks_warps_add_up(lanes: int) -> None:
    for size in range(10880, 10930):
        text = SOFTMAX.replace("48", str(size))
        schedule = kernels.elementwise_schedule(text, lanes)
        totals = kernels.print_elementwise(text, lanes).count("= AcrossBlock<")
        assert totals == 2
        assert schedule["shared_bytes"] + totals * lanes // 32 * 4 <= 48 << 10
    assert kernels.elementwise_schedule(SOFTMAX.replace("48", "10880"), lanes)["scratch_bytes"] == 0


def test_readers_wait_for_what_other_lanes_wrote() -> None:
    for stage, next_stage in zip(
        kernels.elementwise_schedule(SECOND_ORDER)["stages"],
        kernels.elementwise_schedule(SECOND_ORDER)["stages"][1:],
        strict=False,
    ):
        if stage["kind"] == "reduction":
            assert next_stage["waits"]


def test_values_that_no_output_needs_are_left_out() -> None:
    text = HEAD + "input f32 x 8\ninput f32 x 8\nexp f32 8 : 1\nsum f32 1 : 2 0\nneg f32 8 : 0\noutput 4\n"
    schedule = kernels.elementwise_schedule(text)
    assert schedule["lanes"] == 0
    assert "expf" not in kernels.print_elementwise(text).split('extern "C"')[1]
    assert "in1" not in kernels.print_elementwise(text).split('extern "C"')[1]


def test_a_long_program_is_scheduled_in_time() -> None:
    """Sums of elements in two orders: followed one by one, the ways to reach an input double with each sum."""
    order = " ".join(str(index * 5 % 64) for index in range(64))
    for sums in range(4, 301, 4):
        lines = "".join(f"pick f32 64 : {2 * k} {order}\nadd f32 64 : {2 * k} {2 * k + 1}\n" for k in range(sums))
        text = f"{HEAD}input f32 x 64\n{lines}output {2 * sums}\n"
        started = time.process_time()
        kernels.elementwise_schedule(text)
        # 300 take 0.01; where the ways double, 16 take 0.5 and 20 take 8
        assert time.process_time() - started < 1, sums
