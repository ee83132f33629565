//! The front end as a program in Rust uses it: every name, against numbers and prints of torch 2.13. The numbers RUS-1 to RUS-19 are those of
//! the requirements (`tests/features/test_areas.py`, which checks that each has a test).

use std::sync::{Arc, Mutex};

use rushlight::autograd::{self, BackwardContext, Context, Function, NoGradGuard, Options};
use rushlight::nn::{Linear, MSELoss, Reduction};
use rushlight::{DType, Device, Operators, Output, Result, Tensor, call, dtype, requires_grad, tensor};

/// Held by tests that seed and draw: they share the stream of random numbers.
static DRAWING: Mutex<()> = Mutex::new(());

fn arange(sizes: &[i64]) -> Result<Tensor> {
    let count: i64 = sizes.iter().product();
    tensor(&(0..count).collect::<Vec<i64>>())?.reshape(sizes)
}

fn double(elements: &[f64]) -> Result<Tensor> {
    rushlight::from_slice(elements)
}

fn number(x: f64) -> Result<Tensor> {
    double(&[x])?.reshape(&[])
}

fn float(x: f64) -> Result<Tensor> {
    tensor(&[x])?.reshape(&[])
}

/// The tensor of a name in `printed.txt`.
fn printed(name: &str) -> Result<Tensor> {
    let options = |dtype| rushlight::dtype(dtype);
    match name {
        "ones 2 2" => rushlight::ones(&[2, 2], ()),
        "products" => tensor(&[102.4, 1024.0, 0.1024]),
        "half" => float(3.5),
        "empty" => rushlight::zeros(&[0], ()),
        "no rows" => rushlight::zeros(&[0, 3], ()),
        "integers" => tensor(&[1i64, 2, 300]),
        "bools" => tensor(&[true, false]),
        "far apart" => tensor(&[0.5, 1e-7, 3.0, 4.0])?.reshape(&[2, 2]),
        "millions" => tensor(&[1e6, 2.5e6]),
        "nan" => tensor(&[f64::NAN, 1.5]),
        "infinite" => tensor(&[f64::INFINITY, f64::NEG_INFINITY, 1.0]),
        "only nan" => tensor(&[f64::NAN]),
        "three dimensions" => arange(&[2, 3, 4]),
        "wide" => (arange(&[2, 20])?.expr() / 8.0).done(),
        "two sizes" => tensor(&[123456.5, 1.25])?.reshape(&[1, 2]),
        "billions" => tensor(&[1e10, 2e10]),
        "complex" => call("complex", [(&tensor(&[1.0, 3.5])?).into(), (&tensor(&[2.0, -1.0])?).into()])?.into_tensor(),
        "half precision" => rushlight::ones(&[2], options(DType::F16)),
        "bfloat16" => rushlight::ones(&[2], options(DType::BF16)),
        "int64" => tensor(&[7i64])?.reshape(&[]),
        "bool" => tensor(&[true])?.reshape(&[]),
        "small" => float(1e-5),
        "nine digits" => float(123456789.0),
        "scaled" => tensor(&[1e-3, 2e-3])?.reshape(&[1, 2]),
        "negative" => tensor(&[-1021.402, 314.6695]),
        "four dimensions" => arange(&[2, 2, 1, 2]),
        "zero" => tensor(&[0.0]),
        "huge" => double(&[1e200, 1.5]),
        "minus zero" => tensor(&[-0.0, 1.0]),
        "wide in a batch" => arange(&[1, 2, 30]),
        "tenth" => number(0.1),
        "thirds" => number(1.0 / 3.0),
        "sum of tenths" => number(0.1 + 0.2),
        "large" => number(1e16),
        "less" => number(1e15),
        "scaled up" => tensor(&[123456.5, 123457.5]),
        "inf" => float(f64::INFINITY),
        "not a number" => float(f64::NAN),
        "minus inf" => float(f64::NEG_INFINITY),
        "scaled rows" => tensor(&[1e-3, 2e-3, 3e-3, 4e-3])?.reshape(&[2, 2]),
        "scaled in a batch" => tensor(&[1e-3, 2e-3, 3e-3, 4e-3, 1e-3, 2e-3, 3e-3, 4e-3])?.reshape(&[2, 2, 2]),
        _ => panic!("{name}"),
    }
}

/// RUS-15.
#[test]
fn tensors_print_as_in_torch() {
    let texts: Vec<_> = include_str!("printed.txt").split("\n# ").skip(1).collect();
    assert!(texts.len() > 35);
    for text in texts {
        let (name, wanted) = text.split_once('\n').unwrap();
        assert_eq!(printed(name).unwrap().to_string(), wanted.trim_end_matches('\n'), "{name}");
    }
}

#[test]
fn tensors_without_readable_elements_print_their_type() -> Result<()> {
    let options = rushlight::device(Device::Meta);
    assert_eq!(rushlight::zeros(&[2, 3], options)?.to_string(), "[ MetaFloatType{2,3} ]");
    Ok(())
}

#[test]
fn factories_take_options() -> Result<()> {
    let _drawing = DRAWING.lock();
    let x = rushlight::full(&[2], 3.0, dtype(DType::F64).requires_grad(true))?;
    assert!(x.dtype() == DType::F64 && x.requires_grad() && x.is_leaf() && x.to_vec::<f64>()? == [3.0, 3.0]);
    assert!(rushlight::zeros(&[2], requires_grad().device(Device::Cpu))?.requires_grad());
    assert!(
        rushlight::ones(&[-1], ())
            .unwrap_err()
            .to_string()
            .starts_with("Trying to create tensor with negative dimension -1")
    );
    let refused = rushlight::ones(&[2], dtype(DType::I64).requires_grad(true)).unwrap_err().to_string();
    assert!(refused.starts_with("Only Tensors of floating point and complex dtype can require gradients"), "{refused}");
    rushlight::manual_seed(0);
    let drawn = rushlight::rand(&[3], ())?;
    assert_eq!(drawn.to_string(), " 0.4963\n 0.7682\n 0.0885\n[ CPUFloatType{3} ]");
    Ok(())
}

/// RUS-1, RUS-2, RUS-5, RUS-6, RUS-8, RUS-9, RUS-13.
#[test]
fn gradients_and_their_hooks() -> Result<()> {
    let x = rushlight::ones(&[2, 2], requires_grad())?;
    let y = (x.expr() * 3.0).done()?;
    y.retain_grad()?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    x.register_hook(Arc::new(move |grad| {
        kept.lock().unwrap().push(grad.unwrap().to_vec::<f64>()?);
        Ok(Some((grad.unwrap().expr() * 2.0).done()?))
    }))?;
    assert!(x.grad().is_none() && x.grad_fn()?.is_none() && x.output_nr()? == 0);
    (y.expr() * &y).done()?.mean()?.backward(None)?;
    assert_eq!(*seen.lock().unwrap(), [[4.5; 4]]);
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [9.0; 4]);
    assert_eq!(y.grad().unwrap().to_vec::<f64>()?, [1.5; 4]);

    let refused = (x.expr() * 3.0).done()?.backward(None).unwrap_err().to_string();
    assert!(refused.starts_with("grad can be implicitly created only for scalar outputs"), "{refused}");
    let y = (x.expr() * 3.0).done()?;
    let found = autograd::grad(&[y.sum()?], std::slice::from_ref(&x), &[None], false, Options::default())?;
    assert_eq!(found[0].as_ref().unwrap().to_vec::<f64>()?, [6.0; 4], "a gradient, through the hook");
    autograd::backward(&[(x.expr() * 3.0).done()?.sum()?], &[None], None, Options::default())?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [15.0; 4]);
    Ok(())
}

/// RUS-3, RUS-4, RUS-7, RUS-10, RUS-12, RUS-14, RUS-17.
#[test]
fn histories() -> Result<()> {
    let x = rushlight::ones(&[2], requires_grad())?;
    let y = (x.expr() + 2.0).done()?;
    let z = (y.expr() * &y * 3.0).done()?.mean()?;
    assert_eq!(
        [y.grad_fn()?.unwrap().short_name(), z.grad_fn()?.unwrap().short_name()],
        ["AddBackward0", "MeanBackward0"]
    );
    assert!(!y.is_leaf() && y.requires_grad() && !y.detach().requires_grad() && !y.data().requires_grad());
    assert_eq!((y.data().storage().same(y.storage()), y.detach().version()?), (true, y.version()?));
    y.detach_()?;
    assert!(y.is_leaf() && !y.requires_grad());
    let outer = NoGradGuard::new();
    assert!(!x.pow(2.0)?.requires_grad());
    drop(outer);
    assert!(x.pow(2.0)?.requires_grad());
    assert!((x.expr() + 1.0).done()?.requires_grad_(false).is_err());
    Ok(())
}

/// RUS-11.
#[test]
fn data_is_replaced_while_the_gradient_stays() -> Result<()> {
    let mut x = rushlight::ones(&[2], requires_grad())?;
    x.sum()?.backward(None)?;
    x.set_data(&rushlight::zeros(&[2], ())?)?;
    assert_eq!((x.to_vec::<f64>()?, x.grad().unwrap().to_vec::<f64>()?), (vec![0.0; 2], vec![1.0; 2]));
    assert!(x.requires_grad());
    let other = x.clone();
    assert!(x.set_data(&other).unwrap_err().to_string().starts_with("set_data() needs the only handle"));
    drop(other);
    let meta = rushlight::zeros(&[2], rushlight::device(Device::Meta))?;
    assert!(x.set_data(&meta).unwrap_err().to_string().starts_with("Attempted to call `variable.set_data(tensor)`"));
    Ok(())
}

/// A layer whose derivative is written by hand. The bias may be left out.
struct LinearFunction;

impl Function for LinearFunction {
    type Data = ();

    fn forward(context: &mut Context<()>, arguments: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
        context.save_for_backward(arguments.iter().cloned());
        let [Some(input), Some(weight), bias] = arguments else { unreachable!() };
        let output = input.mm(&weight.t()?)?;
        Ok(vec![match bias {
            None => output,
            Some(bias) => (output.expr() + bias.unsqueeze(0)?.expand_as(&output)?).done()?,
        }])
    }

    fn backward(context: &BackwardContext<'_, ()>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let saved = context.get_saved_variables()?;
        let ([Some(input), Some(weight), bias], [Some(grad)]) = (&saved[..], grads) else { unreachable!() };
        let bias = bias.as_ref().map(|_| grad.sum_dims(&[0], false)).transpose()?;
        let weight_grad = match context.needs_input_grad(1) {
            true => Some(grad.t()?.mm(input)?),
            false => None,
        };
        Ok(vec![Some(grad.mm(weight)?), weight_grad, bias])
    }
}

/// RUS-16; the constant factor is in the documentation of `Function`.
#[test]
fn a_function_of_a_program() -> Result<()> {
    let _drawing = DRAWING.lock();
    rushlight::manual_seed(1);
    for with_bias in [true, false] {
        let layer = if with_bias { Linear::new(4, 3)? } else { Linear::without_bias(4, 3)? };
        let input = rushlight::randn(&[5, 4], requires_grad())?;
        let arguments = [Some(input.clone()), Some(layer.weight.clone()), layer.bias.clone()];
        let output = LinearFunction::apply(&arguments, ())?.remove(0);
        assert_eq!(output.grad_fn()?.unwrap().name(), "LinearFunctionBackward");
        let inputs: Vec<Tensor> = arguments.into_iter().flatten().collect();
        let ours = autograd::grad(&[output.pow(2.0)?.sum()?], &inputs, &[None], false, Options::default())?;
        let wanted = layer.forward(&input)?.pow(2.0)?.sum()?;
        let wanted = autograd::grad(&[wanted], &inputs, &[None], false, Options::default())?;
        for (found, wanted) in ours.iter().zip(&wanted) {
            let arguments = [found.as_ref().unwrap().into(), wanted.as_ref().unwrap().into()];
            assert!(matches!(call("allclose", arguments)?, Output::Bool(true)));
        }
    }
    let fixed = rushlight::ones(&[3, 4], ())?;
    let input = rushlight::ones(&[1, 4], requires_grad())?;
    LinearFunction::apply(&[Some(input.clone()), Some(fixed.clone()), None], ())?.remove(0).sum()?.backward(None)?;
    assert_eq!(input.grad().unwrap().to_vec::<f64>()?, [3.0; 4]);
    let _guard = NoGradGuard::new();
    assert!(!LinearFunction::apply(&[Some(input), Some(fixed), None], ())?[0].requires_grad());
    Ok(())
}

/// Two results, of which one has no gradient; it returns one gradient too few if its number says so.
struct Halves;

impl Function for Halves {
    type Data = usize;

    fn forward(context: &mut Context<usize>, arguments: &[Option<Tensor>]) -> Result<Vec<Tensor>> {
        let half = (arguments[0].as_ref().unwrap().expr() / 2.0).done()?;
        let copy = (half.expr() + 0.0).done()?;
        context.mark_non_differentiable([copy.clone()]);
        context.set_materialize_grads(context.saved_data != 3);
        context.save_for_backward([Some(half.clone())]);
        Ok(vec![half, copy])
    }

    fn backward(context: &BackwardContext<'_, usize>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        assert_eq!(grads[1].is_some(), *context.saved_data != 3);
        assert_eq!(context.get_saved_variables()?[0].as_ref().unwrap().to_vec::<f64>()?, [0.5, 0.5]);
        Ok((0..*context.saved_data).map(|_| grads[0].clone()).collect())
    }
}

#[test]
fn functions_are_held_to_their_word() -> Result<()> {
    let x = rushlight::ones(&[2], requires_grad())?;
    for count in [1, 0, 2] {
        let results = Halves::apply(&[Some(x.clone())], count)?;
        assert!(results[0].requires_grad() && !results[1].requires_grad());
        let outcome = results[0].sum()?.backward(None);
        match count {
            1 => outcome?,
            _ => {
                let sentence = outcome.unwrap_err().to_string();
                let wanted = format!(
                    "function HalvesBackward returned an incorrect number of gradients (expected 1, got {count})"
                );
                assert!(sentence.starts_with(&wanted), "{sentence}");
            }
        }
    }
    let results = Halves::apply(&[Some(x.clone()), None, None], 3)?;
    results[0].sum()?.backward(None)?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [2.0, 2.0]);
    let twice = results[0].sum()?.backward(None).unwrap_err().to_string();
    assert!(twice.starts_with("Trying to backward through the graph a second time"), "{twice}");
    Ok(())
}

/// RUS-18: the numbers are torch's, with the same seed.
#[test]
fn a_penalty_on_a_gradient() -> Result<()> {
    let _drawing = DRAWING.lock();
    rushlight::manual_seed(0);
    let model = Linear::new(4, 3)?;
    let input = rushlight::randn(&[3, 4], requires_grad())?;
    let target = rushlight::randn(&[3, 3], ())?;
    let output = model.forward(&input)?;
    let loss = MSELoss::default().forward(&output, &target)?;
    let weights = rushlight::ones_like(&output)?;
    let options = Options { create_graph: true, retain_graph: true };
    let found = autograd::grad(&[output], std::slice::from_ref(&input), &[Some(weights)], false, options)?;
    let lengths = found[0].as_ref().unwrap().norm(2.0, &[1], false)?;
    let penalty = (lengths.expr() - 1.0).done()?.pow(2.0)?.mean()?;
    (loss.expr() + &penalty).done()?.backward(None)?;
    let near = |tensor: &Tensor, wanted: &[f64]| -> Result<()> {
        for (found, wanted) in tensor.to_vec::<f64>()?.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-6, "{found}, wanted {wanted}");
        }
        Ok(())
    };
    near(&loss, &[3.828_680_3])?;
    near(&penalty, &[0.031_527_564])?;
    near(&input.grad().unwrap(), &[-0.037_559_077, -0.140_468_76, 0.256_128_46, 0.312_774_81, -0.050_055_243])?;
    near(&model.weight.grad().unwrap(), &[-0.855_955_54, -0.778_461_69, 0.865_014_08, -3.303_955_1])?;
    near(&model.bias.as_ref().unwrap().grad().unwrap(), &[-1.884_091_3, 0.677_762_63, -0.218_655_26])?;
    assert_eq!(model.parameters().count(), 2);
    Ok(())
}

/// RUS-19.
#[test]
fn losses_are_reduced() -> Result<()> {
    let (x, y) = (tensor(&[1.0, 2.0])?, tensor(&[3.0, 5.0])?);
    let loss = |reduction| MSELoss { reduction }.forward(&x, &y)?.to_vec::<f64>();
    assert_eq!(loss(Reduction::None)?, [4.0, 9.0]);
    assert_eq!((loss(Reduction::Mean)?, loss(Reduction::Sum)?), (vec![6.5], vec![13.0]));
    Ok(())
}

#[test]
fn operators_by_name() -> Result<()> {
    let x = tensor(&[1.0, 2.0, 3.0, 4.0])?.reshape(&[2, 2])?;
    let whole = |name: &str, rest: &[i64]| {
        let arguments = std::iter::once((&x).into()).chain(rest.iter().map(|&n| n.into()));
        call(name, arguments)?.into_tensor()
    };
    assert_eq!(whole("sum", &[1])?.to_vec::<f64>()?, [3.0, 7.0]);
    assert_eq!(whole("add", &[1])?.to_vec::<f64>()?, [2.0, 3.0, 4.0, 5.0]);
    assert_eq!(whole("linalg.inv", &[])?.to_vec::<f32>()?.len(), 4);
    assert_eq!(whole("exp", &[])?.to_vec::<f64>()?, x.exp()?.to_vec::<f64>()?);
    assert_eq!(x.exp()?.log()?.to_vec::<f32>()?, x.to_vec::<f32>()?);
    assert_eq!(x.matmul(&x)?.mean_dims(&[0], true)?.sizes().as_slice(), [1, 2]);
    assert!(x.eq(&x)?.all()?.item()?.truth() && x.any()?.item()?.truth());
    assert!(whole("no_such", &[]).unwrap_err().to_string().starts_with("module 'torch' has no attribute 'no_such'"));
    let sentence = whole("linalg.inv", &[1, 2, 3]).unwrap_err().to_string();
    assert!(sentence.starts_with("linalg.inv() received an invalid combination of arguments"), "{sentence}");
    assert!(x.item().unwrap_err().to_string().starts_with("a Tensor with 4 elements cannot be converted to Scalar"));
    Ok(())
}

#[test]
fn a_linear_layer_may_have_no_inputs() -> Result<()> {
    let _drawing = DRAWING.lock();
    let layer = Linear::new(0, 3)?;
    assert_eq!(layer.weight.sizes().as_slice(), [3, 0]);
    let input = rushlight::ones(&[2, 0], ())?;
    assert_eq!(layer.forward(&input)?.to_vec::<f32>()?, [0.0; 6]);
    assert_eq!(Linear::without_bias(0, 3)?.forward(&input)?.sizes().as_slice(), [2, 3]);
    Ok(())
}
