"""Random numbers are the same bits as torch 2.13's for the same seed, as recorded."""

import hashlib
import math
import subprocess
import sys
import warnings
import weakref

import pytest

import rushlight as torch

# Normal numbers in the memory order of a transposed matrix.
TWENTY = [
    1.5409960746765137,
    -1.3985954523086548,
    -0.5966353416442871,
    0.1227012425661087,
    -0.293428897857666,
    0.40334683656692505,
    0.18203648924827576,
    -0.5663174986839294,
    -2.1787893772125244,
    0.8380263447761536,
    -0.8566746115684509,
    0.3731146454811096,
    0.5684312582015991,
    -0.7192575931549072,
    1.1006041765213013,
    -0.8919953107833862,
    -1.0845223665237427,
    -0.40334352850914,
    -1.0711873769760132,
    -1.5091077089309692,
]

# Statistics of 100,000 normal numbers in float32 for the seeds 0, 1 and 2.
RANDN_DIGESTS = ["0185aae2d6c33b39", "2ca236e63bb6433d", "acf9577db0fb0dc9"]

# After manual_seed(0). Complex numbers are listed as alternating parts.
DRAWS = {
    "torch.nn.functional.alpha_dropout(torch.ones(4, dtype=torch.float64), 0.4, True)": [
        -0.9106419695548393,
        -0.9106419695548393,
        1.4703772724774749,
        -0.9106419695548393,
    ],
    "torch.rand(3)": [0.49625658988952637, 0.7682217955589294, 0.08847743272781372],
    "torch.rand(2, 2, dtype=torch.float64)": [
        0.9700530018065531,
        0.707819864399788,
        0.45938294312745087,
        0.9207476841219603,
    ],
    "torch.rand(3, dtype=torch.float16)": [0.496337890625, 0.76806640625, 0.0885009765625],
    "torch.rand(3, dtype=torch.bfloat16)": [0.49609375, 0.76953125, 0.08837890625],
    "torch.rand(2, dtype=torch.complex64)": [
        0.49625658988952637,
        0.7682217955589294,
        0.08847743272781372,
        0.13203048706054688,
    ],
    "torch.randn(5)": [
        1.5409960746765137,
        -0.293428897857666,
        -2.1787893772125244,
        0.5684312582015991,
        -1.0845223665237427,
    ],
    "torch.randn(20)": [
        -1.1258398294448853,
        -1.152360200881958,
        -0.2505785822868347,
        -0.4338788092136383,
        0.5988394618034363,
        -1.5550950765609741,
        -0.3413603901863098,
        1.85300612449646,
        0.46809640526771545,
        -0.1577124446630478,
        1.4436601400375366,
        0.26604941487312317,
        1.3893661499023438,
        1.586334228515625,
        0.946298360824585,
        -0.843676745891571,
        0.9318265914916992,
        1.2590092420578003,
        2.0049805641174316,
        0.05373690277338028,
    ],
    "torch.randn(18, dtype=torch.float64)": [
        -2.310411800234176,
        -0.3732508612577643,
        -1.2609246557194385,
        -0.726951062065411,
        -0.019964750907762653,
        0.2102998901016947,
        0.17718935139366584,
        -0.830510051008449,
        0.23871805816817063,
        0.7335283685272841,
        -0.7730112772958181,
        -1.5951814880783068,
        -0.6870036940435463,
        1.4880743158106724,
        -0.4484158047114511,
        -0.8910030351707375,
        0.6748575435940039,
        1.0468653769814655,
    ],
    "torch.randn(17, dtype=torch.float16)": [
        -1.1259765625,
        -1.3525390625,
        -1.6962890625,
        0.56689453125,
        0.79345703125,
        0.5986328125,
        -1.5546875,
        -0.34130859375,
        1.8525390625,
        0.75,
        -0.58544921875,
        -0.17333984375,
        0.1834716796875,
        1.3896484375,
        1.5859375,
        0.9462890625,
        -0.84375,
    ],
    "torch.randn(3, dtype=torch.complex64)": [
        1.0896488428115845,
        -0.20748557150363922,
        -1.5406367778778076,
        0.40194159746170044,
        -0.7668731212615967,
        -0.9889562726020813,
    ],
    "torch.randperm(10)": [4, 1, 7, 5, 3, 9, 0, 8, 6, 2],
    "torch.randperm(6, dtype=torch.int32)": [2, 5, 3, 0, 1, 4],
    "torch.randint(10, (6,))": [4, 9, 3, 0, 3, 9],
    "torch.randint(-5, 5, (2, 3))": [-1, 4, -2, -5, -2, 4],
    "torch.randint(2**40, (3,))": [741280623151, 506137267392, 291447657211],
    "torch.randint(2, (8,), dtype=torch.bool)": [False, True, True, False, True, True, True, True],
    "torch.randint(0, 255, (5,), dtype=torch.uint8)": [194, 54, 233, 135, 223],
    "torch.bernoulli(torch.full((8,), 0.4))": [0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    "torch.bernoulli(torch.full((6,), 0.4, dtype=torch.float64))": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "torch.empty(8).bernoulli_(0.4)": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0],
    "torch.empty(3).uniform_(-2, 5)": [1.4737961292266846, 3.3775525093078613, -1.3806579113006592],
    "torch.empty(17).normal_(2, 0.5)": [
        1.4370801448822021,
        1.1520344018936157,
        2.2833251953125,
        2.396754264831543,
        2.299419641494751,
        1.2224524021148682,
        1.8293198347091675,
        2.9265031814575195,
        2.2340481281280518,
        1.7072511911392212,
        1.9133015871047974,
        2.0917389392852783,
        2.694683074951172,
        2.7931671142578125,
        2.473149299621582,
        1.578161597251892,
        2.4659132957458496,
    ],
    "torch.empty(3).exponential_(2)": [1.754163146018982, 0.6151923537254333, 0.3075220584869385],
    "torch.empty(4).geometric_(0.3)": [1.0, 1.0, 3.0, 1.0],
    "torch.empty(3).cauchy_()": [10.597729682922363, 0.7647672891616821, -0.12829934060573578],
    "torch.empty(3).log_normal_()": [59.2634162902832, 1.5115599632263184, 0.03481946140527725],
    "torch.empty(4).random_()": [8325664.0, 12888472.0, 1484222.0, 2214888.0],
    "torch.empty(4, dtype=torch.int64).random_()": [
        900450186894289455,
        3969543146641149120,
        1895649597198586619,
        827948490035658087,
    ],
    "torch.empty(4, dtype=torch.bool).random_()": [False, True, True, False],
    "torch.empty(4, dtype=torch.int8).random_(-3, 4)": [1, 0, -3, -1],
    "torch.empty(4, 5).t().normal_()": TWENTY,
    "torch.empty(4, 5).t().uniform_()": [
        0.49625658988952637,
        0.6340786814689636,
        0.3488934636116028,
        0.518521785736084,
        0.7682217955589294,
        0.4900934100151062,
        0.40171730518341064,
        0.6976675987243652,
        0.08847743272781372,
        0.8964447379112244,
        0.022325754165649414,
        0.800011396408081,
        0.13203048706054688,
        0.455627977848053,
        0.16885894536972046,
        0.16102945804595947,
        0.30742281675338745,
        0.6323062777519226,
        0.2938884496688843,
        0.28226858377456665,
    ],
    "torch.empty(20)[::2].normal_()": [
        1.5409960746765137,
        -0.293428897857666,
        -2.1787893772125244,
        0.5684312582015991,
        -1.0845223665237427,
        -1.3985954523086548,
        0.40334683656692505,
        0.8380263447761536,
        -0.7192575931549072,
        -0.40334352850914,
    ],
    "torch.empty(4, 4)[:, :2].uniform_()": [
        0.49625658988952637,
        0.7682217955589294,
        0.08847743272781372,
        0.13203048706054688,
        0.30742281675338745,
        0.6340786814689636,
        0.4900934100151062,
        0.8964447379112244,
    ],
    "torch.normal(torch.arange(4.0), 0.5)": [
        0.7704980373382568,
        0.853285551071167,
        0.9106053113937378,
        3.2842156887054443,
    ],
    "torch.normal(1.0, torch.arange(1.0, 5.0))": [
        2.5409960746765137,
        0.41314220428466797,
        -5.536368370056152,
        3.2737250328063965,
    ],
    "torch.normal(torch.arange(3.0), torch.ones(3))": [1.5409960746765137, 0.706571102142334, -0.17878937721252441],
    "torch.normal(5.0, 2.0, (4,))": [8.081992149353027, 4.413142204284668, 0.6424212455749512, 6.136862754821777],
    "torch.multinomial(torch.tensor([1.0, 2.0, 3.0, 4.0]), 4)": [2, 1, 3, 0],
    "torch.multinomial(torch.tensor([1.0, 2.0, 3.0, 4.0]), 1)": [2],
    "torch.multinomial(torch.tensor([[1.0, 2.0], [3.0, 0.5]]), 5, replacement=True)": [1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
    "torch.multinomial(torch.tensor([[1.0, 2.0, 1.0], [3.0, 0.5, 1.0]], dtype=torch.float64), 2)": [2, 1, 0, 2],
    "torch.rand_like(torch.empty(2, 3).t())": [
        0.49625658988952637,
        0.13203048706054688,
        0.7682217955589294,
        0.30742281675338745,
        0.08847743272781372,
        0.6340786814689636,
    ],
    "torch.randn_like(torch.empty(4, 5).t())": TWENTY,
    "torch.randint_like(torch.empty(3), 100)": [44.0, 39.0, 33.0],
}
# Consecutive calls after manual_seed(42).
CHAIN = [
    [0.8822692632675171, 0.9150039553642273, 0.38286375999450684],
    [
        -2.1055209636688232,
        0.6784184575080872,
        -1.2345448732376099,
        -0.04306747764348984,
        1.680620551109314,
        0.3558599054813385,
        -0.6866229772567749,
        -0.4933563470840454,
        0.2414877861738205,
        -1.1109038591384888,
        0.09154565632343292,
        -2.316922664642334,
        0.859858512878418,
        -0.3097267746925354,
        -0.3957104980945587,
        0.8034093379974365,
        -0.6215953826904297,
        -0.5920005440711975,
        -0.06307438015937805,
        -0.8285542726516724,
    ],
    [-0.16030240058898926, -2.2161147594451904, -0.6857729554176331, -0.32950884103775024, -0.2747350335121155],
    [9, 2, 5, 4, 1, 3, 6, 0, 8, 7],
    [-1.255190372467041, -0.008498823270201683, 0.7290605902671814],
    [70, 61, 23, 20],
]
GENERATOR = [67280421310721, [0.267295241355896, 0.8725283145904541], [0.9308151006698608, 0.6607242226600647]]
STATE = [
    313280,
    [0, 0, 0, 0, 0, 0, 0, 0, 109, 2, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0],
    [234, 111, 124, 8, 138, 199, 210, 191, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
]


def flat(tensor):
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).flatten().tolist()


@pytest.mark.parametrize("expression", DRAWS)
def test_draw(expression):
    torch.manual_seed(0)
    assert flat(eval(expression)) == DRAWS[expression]


def test_draws_follow_each_other():
    torch.manual_seed(42)
    drawn = [
        torch.rand(3),
        torch.randn(20),
        torch.randn(5),
        torch.randperm(10),
        torch.randn(3),
        torch.randint(100, (4,)),
    ]
    assert [tensor.tolist() for tensor in drawn] == CHAIN


def test_a_generator_of_its_own():
    generator = torch.Generator()
    first = [generator.initial_seed(), torch.rand(2, generator=generator).tolist()]
    assert [*first, torch.rand(2, generator=generator.manual_seed(-5)).tolist()] == GENERATOR


def test_state_is_torchs():
    torch.manual_seed(0)
    torch.randn(1)
    state = torch.get_rng_state()
    assert state.dtype == torch.uint8 and state.shape == (5056,)
    assert [state.sum().item(), state[:24].tolist(), state[5024:].tolist()] == STATE
    after = torch.rand(3)
    torch.set_rng_state(state)
    assert torch.rand(3).tolist() == after.tolist()


def test_bad_states_are_refused():
    with pytest.raises(RuntimeError, match="Expected a CPUGeneratorImplState of size 5056"):
        torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(TypeError, match="RNG state must be a torch.ByteTensor"):
        torch.set_rng_state(torch.zeros(5056))


def test_fork_rng():
    torch.manual_seed(1)
    expected = torch.rand(2).tolist()
    torch.manual_seed(1)
    with torch.random.fork_rng():
        torch.rand(7)
    assert torch.rand(2).tolist() == expected


def test_seed_of_the_system():
    seed = torch.seed()
    assert torch.initial_seed() == seed
    torch.manual_seed(3)
    assert torch.initial_seed() == 3


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: torch.randint(0, (2,)), "random_ expects 'from' to be less than 'to', but got from=0 >= to=0"),
        (lambda: torch.randint(300, (2,), dtype=torch.uint8), "to - 1 is out of bounds for unsigned char"),
        (
            lambda: torch.ones(2).uniform_(2, 1),
            "uniform_ expects to return a [from, to) range, but found from=2 > to=1",
        ),
        (lambda: torch.ones(2).normal_(0, -1), "normal expects std >= 0.0, but found std -1"),
        (lambda: torch.normal(torch.ones(2), -torch.ones(2)), "normal expects all elements of std >= 0.0"),
        (lambda: torch.ones(2).bernoulli_(2), "bernoulli_ expects p to be in [0, 1], but got p=2"),
        (lambda: torch.bernoulli(torch.tensor([2.0])), "Expected p_in >= 0 && p_in <= 1 to be true, but got false."),
        (lambda: torch.ones(2).exponential_(0), "exponential_ expects lambda > 0.0, but found lambda=0"),
        (lambda: torch.ones(2).geometric_(1), "geometric_ expects p to be in (0, 1), but got p=1"),
        (lambda: torch.multinomial(torch.ones(2), 3), "cannot sample n_sample > prob_dist.size(-1) samples without"),
        (lambda: torch.multinomial(torch.zeros(2), 1), "invalid multinomial distribution (sum of probabilities <= 0)"),
        (lambda: torch.randperm(-1), "Trying to create tensor with negative dimension -1: [-1]"),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("name", ["uniform_", "normal_"])
def test_integers_are_refused(name):
    with pytest.raises(NotImplementedError, match="not implemented for 'Int'"):
        getattr(torch.ones(2, dtype=torch.int32), name)()


def test_in_place_cuts_the_gradient():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_large_draws_are_the_same_for_any_number_of_threads():
    draw = "torch.manual_seed(0); print(torch.randn(100_000).double().sum().item(), torch.rand(99_999)[-1].item())"
    printed = {
        subprocess.run(
            [sys.executable, "-c", f"import rushlight as torch; torch.set_num_threads({threads}); {draw}"],
            capture_output=True, text=True, check=True,
        ).stdout
        for threads in (1, 3)
    }  # fmt: skip
    assert len(printed) == 1


def test_long_draws_are_torchs_to_the_last_bit():
    digests = []
    for seed in range(3):
        torch.manual_seed(seed)
        digests.append(hashlib.sha256(torch.randn(100_000).numpy().tobytes()).hexdigest()[:16])
    assert digests == RANDN_DIGESTS


def test_binomial_numbers_of_nothing_and_of_no_number():
    nan, inf = math.nan, math.inf
    counts = torch.tensor([nan, nan, nan, 5.0, 0.0, inf], dtype=torch.float64)
    chances = torch.tensor([0.2, 0.7, 1.5, nan, nan, 1.0], dtype=torch.float64)
    assert str(torch.binomial(counts, chances).tolist()) == "[nan, nan, nan, nan, 0.0, inf]"


def test_a_generator_is_cloned_with_its_state():
    generator = torch.Generator().manual_seed(3)
    torch.randn(3, generator=generator)
    clone = generator.clone_state()
    assert torch.randn(4, generator=clone).tolist() == torch.randn(4, generator=generator).tolist()


def test_states_must_be_contiguous_bytes():
    state = torch.stack([torch.get_rng_state()] * 2, 1)[:, 0]
    with pytest.raises(RuntimeError, match="RNG state must be contiguous"):
        torch.set_rng_state(state)
    with pytest.raises(TypeError, match="expected a torch.ByteTensor, but got list"):
        torch.Generator().set_state([1])


@pytest.mark.parametrize(
    ("dtype", "most", "sentence"),
    [
        (torch.uint8, 256, "value cannot be converted to type uint8_t without overflow"),
        (torch.int8, 128, "value cannot be converted to type int8_t without overflow"),
        (torch.int16, 32768, "value cannot be converted to type int16_t without overflow"),
        (torch.float16, 2049, "n cannot be greater than 2049 for Half type."),
    ],
)
def test_permutations_that_a_dtype_holds(dtype, most, sentence):
    assert torch.randperm(most, dtype=dtype).unique().numel() == most
    with pytest.raises(RuntimeError, match=sentence):
        torch.randperm(most + 1, dtype=dtype)


# From torch 2.13, after manual_seed(7), where float32 and double arithmetic differ.
LARGE = {
    "torch.binomial(torch.tensor([1e6, 1e7, 1e10]), torch.tensor([0.3, 0.9, 0.77]))": [
        299699.0,
        8998818.0,
        7699926016.0,
    ],
    "torch._standard_gamma(torch.tensor([1e-3, 0.1, 2.3, 1e10, -1, float('nan'), 0]))": [
        1.1754943508222875e-38,
        3.196354292356318e-11,
        1.5089141130447388,
        10000122880.0,
        1.1754943508222875e-38,
        1.1754943508222875e-38,
        1.1754943508222875e-38,
    ],
    "torch.zeros(3, dtype=torch.int32).geometric_(1e-12)": [-2147483648, -2147483648, -2147483648],
    "torch.zeros(3, dtype=torch.int64).geometric_(1e-320)": [
        -9223372036854775808,
        -9223372036854775808,
        -9223372036854775808,
    ],
    "torch.nn.functional.rrelu(torch.arange(-8.0, 1), 0.1, 0.3, training=True)": [
        -1.2470086812973022,
        -1.0831712484359741,
        -1.6345114707946777,
        -1.1566884517669678,
        -1.1380234956741333,
        -0.8037272691726685,
        -0.3178848624229431,
        -0.21214433014392853,
        0.0,
    ],
}


@pytest.mark.parametrize("expression", LARGE)
def test_draws_at_the_edge_of_precision(expression):
    torch.manual_seed(7)
    assert eval(expression).tolist() == LARGE[expression]


@pytest.mark.parametrize(
    "dtype, bounds, warned",
    [
        (torch.float16, (-4096, 10), ["from is out of bounds [-(2^11), 2^11]"]),
        (torch.bfloat16, (0, 300), ["to - 1 is out of bounds [-(2^8), 2^8]"]),
        (torch.float32, (2**24 + 1, 2**24 + 5), ["from is out of bounds", "to - 1 is out of bounds [-(2^24), 2^24]"]),
        (torch.float64, (0, 2**53 + 1), []),
        (torch.int32, (0, 2**30), []),
    ],
)
def test_whole_numbers_that_a_dtype_skips(dtype, bounds, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.zeros(2, dtype=dtype).random_(*bounds)
    assert [str(one.message)[: len(text)] for one, text in zip(caught, warned, strict=True)] == warned


def test_generators_have_weak_references():
    generator = torch.Generator()
    reference = weakref.ref(generator)
    assert reference() is generator
    del generator
    assert reference() is None
