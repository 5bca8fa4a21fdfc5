"""Products: the names people use lead to one row."""

import pytest

from convgrad.core import dtypes, precision, products

NAMES = {
    "950": ("950", "Ascend950PR_9599", "Ascend 950", "910_95", "Ascend910_9589", "950DT", "昇腾910_95 AI处理器", "A5",
            "Ascend350", "Ascend950DT_95A1", "Ascend 950PR/Ascend 950DT"),
    "A3": ("A3", "a3", "Atlas A3", "Ascend910_9391", "910_9392", "Ascend910_93", "910C", "Atlas A3 训练系列产品",
           "Ascend910_9362", "Ascend910_9372", "Ascend910_9381", "Ascend910_9382", "Ascend910_9392",
           "Atlas A3 训练系列产品/Atlas A3 推理系列产品", "昇腾910_93 AI处理器"),
    "A2": ("A2", "Atlas A2", "atlas-a2", "Ascend910B", "Ascend910B3", "910B4-1", "Atlas 800I A2",
           "Atlas A2 训练系列产品", "Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B4", "Ascend910B4-1",
           "Atlas A2 训练系列产品/Atlas 800I A2 推理产品/A200I A2 Box 异构组件", "A200I A2 Box 异构组件",
           "Atlas A2 推理系列产品", "Atlas A2 训练系列产品/Atlas A2 推理系列产品", "昇腾910B AI处理器"),
    "910": ("910", "Ascend910", "Ascend910A", "Ascend910ProB", "Atlas training series", "Atlas 训练系列产品"),
    "310P": ("310P", "Ascend310P3", "310P1", "Atlas 300I Pro", "Atlas 推理系列产品"),
    "310B": ("310B", "Ascend310B4", "Atlas 200I/500 A2", "Atlas 200I/500 A2 推理产品"),
    "310": ("310", "Ascend310", "Atlas 200/300/500", "Atlas 200/300/500 推理产品"),
    "cpu": ("cpu", "CPU", "host"),
}  # fmt: skip


@pytest.mark.parametrize("key", NAMES)
def test_every_spelling_finds_its_product(key: str) -> None:
    """Keys, SoC names with variant numbers, marketing names, the documents' own words."""
    assert {products.find(name).key for name in NAMES[key]} == {key}


def test_every_row_is_found_by_its_own_names() -> None:
    """No spelling of one product belongs to another."""
    for product in products.PRODUCTS:
        for name in (product.key, product.soc_name, *product.spellings):
            assert products.find(name) is product


@pytest.mark.parametrize("name", ["", "H100", "A4", "Ascend", "310X", "91"])
def test_an_unknown_name_is_an_error_that_lists_the_known(name: str) -> None:
    """No name is guessed."""
    with pytest.raises(ValueError, match="use one of cpu, 950, A3, A2, 910, 310P, 310B, 310"):
        products.find(name)


def test_every_product_that_computes_has_rows() -> None:
    """A product of no generation would silently be judged by the rules of all and computed as on cpu."""
    for product in products.PRODUCTS:
        if product.key != "cpu" and (product.convolution_backward or product.conv_tbc_backward):
            assert product.generation, product.key
            assert any(product.key in row.products for row in precision.ROWS), product.key
        assert dtypes.find(product.hf32).name == product.hf32


def test_a_generation_is_its_members() -> None:
    """Rows name generations; the contract's own groups are these."""
    assert (products.A2_A3, products.A2_A3_950, products.OLDER) == (("A3", "A2"), ("950", "A3", "A2"), ("910", "310P"))
    assert products.CONV_VENDOR == ("950", "A3", "A2", "910", "310P")
    assert products.TBC_VENDOR == ("950", "A3", "A2", "910")


@pytest.mark.parametrize("name", ["Ascend910_55", "910_55", "mc62", "mc62cm12a", "KirinX90", "kirin9030"])
def test_a_chip_without_documents_is_refused_with_the_reason(name: str) -> None:
    """A name of the vendor's that no rule belongs to is not an unknown name."""
    with pytest.raises(ValueError, match="is a chip on which no document describes convolution gradients"):
        products.find(name)
