//! Sums of products in Einstein's notation: operands are contracted pair by pair, each pair as one batched product.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::promote;
use rushlight_core::{Error, Result};
use rushlight_dispatch::operator::{Autocast, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Ints, Output};
use rushlight_dispatch::{op, value};

use super::matrix::BATCHED;
use crate::convert::to_dtype;
use crate::reduce::sum::SUM_DIM;
use crate::view::transpose::permuted;

#[operator]
pub static EINSUM: Operator = Operator {
    name: "_einsum",
    variants: Variants::FUNCTION,
    signature: "(str equation, Tensor[] operands) -> Tensor",
    doc: "The sum of products described by `equation`: a letter for each dimension, operands separated by commas, the result after `->`.

    >>> torch._einsum('ij,jk->ik', [torch.ones(2, 3), torch.ones(3, 2)])
    tensor([[3., 3.],
            [3., 3.]])",
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| einsum(args.str(EQUATION)?, &args.tensors(OPERANDS)?).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "'ij,jk->ik', [t(2, 3), t(3, 4)]",
        "'bij,bjk', [t(2, 3, 4), t(2, 4, 2)]",
        "'ii->i', [t(3, 3)]",
        "'i,j,k->kji', [t(2), t(3), t(2)]",
        "'...ij,...jk->...ik', [t(2, 1, 2, 3), t(4, 3, 2)]",
        "'ij->', [t(2, 3)]",
    ],
    errors: &[(
        "'ij,jk->iz', [t(2, 3), t(3, 4)]",
        "RuntimeError",
        "einsum(): output subscript z does not appear in the equation for any input operand",
    )],
    reference: "np.einsum(equation, *operands)",
    ..Operator::BASE
};

/// A dimension's label: a letter, or its position under the ellipsis counted from the right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Label {
    Letter(char),
    Under(usize),
}

/// A tensor with a label for each dimension.
struct Term {
    tensor: Tensor,
    labels: Vec<Label>,
}

fn wrong(sentence: impl std::fmt::Display) -> Error {
    Error::runtime(format!("einsum(): {sentence}"))
}

/// The kind of a part of the equation.
#[derive(Clone, Copy)]
enum EquationPart {
    Matrix(usize),
    Output,
}

impl EquationPart {
    /// The error for a dot that does not begin an ellipsis, or that begins a second one (`again`).
    fn dot(self, again: bool) -> Error {
        wrong(match (self, again) {
            (EquationPart::Matrix(at), true) => {
                format!("found '.' for operand {at} for which an ellipsis was already found")
            }
            (EquationPart::Matrix(at), false) => format!("found '.' for operand {at} that is not part of any ellipsis"),
            (EquationPart::Output, true) => "found '.' for output but an ellipsis (...) was already found".into(),
            (EquationPart::Output, false) => "found '.' for output that is not part of any ellipsis (...)".into(),
        })
    }
}

/// The labels in one part of the equation; `check` is called for each with those before it; `None` is the ellipsis.
fn subscripts(
    part: &str,
    start: usize,
    place: EquationPart,
    check: impl Fn(&[Option<char>], char) -> Result<()>,
) -> Result<Vec<Option<char>>> {
    let mut found = Vec::new();
    let mut rest = part.char_indices();
    while let Some((at, letter)) = rest.next() {
        match letter {
            ' ' => {}
            '.' if found.contains(&None) => return Err(place.dot(true)),
            '.' if part[at..].starts_with("...") => {
                found.push(None);
                rest.nth(1);
            }
            '.' => return Err(place.dot(false)),
            letter if letter.is_ascii_alphabetic() => {
                check(&found, letter)?;
                found.push(Some(letter));
            }
            _ => {
                return Err(wrong(format!(
                    "invalid subscript given at index {} in the equation string, subscripts must be in [a-zA-Z]",
                    start + at
                )));
            }
        }
    }
    Ok(found)
}

fn einsum(equation: &str, operands: &[&Tensor]) -> Result<Tensor> {
    if operands.is_empty() {
        return Err(wrong("must provide at least one operand"));
    }
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation, None),
    };
    let mut parts = Vec::with_capacity(operands.len());
    let mut start = 0;
    for (at, part) in inputs.split(',').enumerate() {
        if at == operands.len() {
            return Err(wrong("fewer operands were provided than specified in the equation"));
        }
        parts.push(subscripts(part, start, EquationPart::Matrix(at), |_, _| Ok(()))?);
        start += part.len() + 1;
    }
    if parts.len() < operands.len() {
        return Err(wrong("more operands were provided than specified in the equation"));
    }
    let mut labels = Vec::with_capacity(operands.len());
    let mut widest = 0;
    for (at, (names, operand)) in parts.iter().zip(operands).enumerate() {
        let letters = names.iter().flatten().count();
        let ellipsis = names.contains(&None);
        if letters > operand.rank() || (letters < operand.rank() && !ellipsis) {
            return Err(wrong(format!(
                "the number of subscripts in the equation ({letters}) {} the number of dimensions ({}) for operand {at}{}",
                if ellipsis { "is more than" } else { "does not match" },
                operand.rank(),
                if ellipsis { "" } else { " and no ellipsis was given" }
            )));
        }
        let under = operand.rank() - letters;
        widest = widest.max(under);
        let named = names.iter().flat_map(|name| match name {
            Some(letter) => vec![Label::Letter(*letter)],
            None => (0..under).rev().map(Label::Under).collect(),
        });
        labels.push(named.collect::<Vec<_>>());
    }
    let all: Vec<char> = parts.iter().flatten().flatten().copied().collect();
    let output = output_labels(output, inputs.len() + 2, &all, widest)?;
    check_sizes(&labels, operands)?;
    let terms = operands.iter().zip(labels).map(|(operand, labels)| diagonal((*operand).clone(), labels));
    contract(terms.collect::<Result<_>>()?, &output)
}

/// Repeated labels take the diagonal.
fn diagonal(tensor: Tensor, labels: Vec<Label>) -> Result<Term> {
    let mut term = Term { tensor, labels };
    while let Some((first, second)) = repeated(&term.labels) {
        term.tensor = op!(crate::view::diagonal::DIAGONAL, &term.tensor, 0i64, first, second)?;
        let label = term.labels[first];
        term.labels.remove(second);
        term.labels.remove(first);
        term.labels.push(label);
    }
    Ok(term)
}

fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    (0..labels.len()).find_map(|first| {
        let second = labels[first + 1..].iter().position(|label| *label == labels[first])?;
        Some((first, first + 1 + second))
    })
}

/// Checks that dimensions of one label have one size: exactly within an operand, and equal or 1 between operands.
fn check_sizes(labels: &[Vec<Label>], operands: &[&Tensor]) -> Result<()> {
    let mut seen: Vec<(Label, isize)> = Vec::new();
    for (at, (labels, operand)) in labels.iter().zip(operands).enumerate() {
        for (dim, (&label, &size)) in labels.iter().zip(operand.sizes()).enumerate() {
            if let Some(first) = labels[..dim].iter().position(|other| *other == label) {
                let other = operand.sizes()[first];
                match label {
                    Label::Letter(letter) if size != other => {
                        return Err(wrong(format!(
                            "subscript {letter} is repeated for operand {at} but the sizes don't match, {size} != {other}"
                        )));
                    }
                    _ => continue,
                }
            }
            match seen.iter_mut().find(|(known, _)| *known == label) {
                Some((_, known)) if *known == 1 => *known = size,
                Some((_, known)) if size != *known && size != 1 => {
                    return Err(wrong(match label {
                        Label::Letter(letter) => format!(
                            "subscript {letter} has size {size} for operand {at} which does not broadcast with previously seen size {known}"
                        ),
                        Label::Under(_) => format!(
                            "dimension {dim} covered by ellipsis in operand {at}has size {size} which does not broadcast with previously seen ellipsis with size {known} for the respective dimension"
                        ),
                    }));
                }
                Some(_) => {}
                None => seen.push((label, size)),
            }
        }
    }
    Ok(())
}

/// The result's labels: as written, or else those that appear once, in alphabetical order behind the ellipsis.
fn output_labels(written: Option<&str>, start: usize, all: &[char], widest: usize) -> Result<Vec<Label>> {
    let under = (0..widest).rev().map(Label::Under);
    let Some(written) = written else {
        let once = |letter: &char| all.iter().filter(|other| *other == letter).count() == 1;
        let mut letters: Vec<char> = all.iter().copied().filter(once).collect();
        letters.sort_unstable();
        return Ok(under.chain(letters.into_iter().map(Label::Letter)).collect());
    };
    let names = subscripts(written, start, EquationPart::Output, |found, letter| {
        if found.contains(&Some(letter)) {
            return Err(wrong(format!("output subscript {letter} appears more than once in the output")));
        }
        if !all.contains(&letter) {
            return Err(wrong(format!(
                "output subscript {letter} does not appear in the equation for any input operand"
            )));
        }
        Ok(())
    })?;
    let labels = names.into_iter().flat_map(|name| match name {
        None => under.clone().collect(),
        Some(letter) => vec![Label::Letter(letter)],
    });
    Ok(labels.collect())
}

/// Contracts from left to right, then orders the dimensions as in the output.
fn contract(terms: Vec<Term>, output: &[Label]) -> Result<Tensor> {
    let mut terms = terms.into_iter().collect::<std::collections::VecDeque<_>>();
    let Some(mut result) = terms.pop_front() else { return Err(wrong("must provide at least one operand")) };
    while let Some(next) = terms.pop_front() {
        let wanted = |label: &Label| output.contains(label) || terms.iter().any(|term| term.labels.contains(label));
        // The operand whose own labels begin the output comes first, so that the product has the output's order.
        let first = |own: &Term, other: &Term| {
            output.iter().position(|label| own.labels.contains(label) && !other.labels.contains(label))
        };
        let swapped = first(&result, &next).zip(first(&next, &result)).is_some_and(|(left, right)| right < left);
        result = if swapped { pair(next, result, wanted) } else { pair(result, next, wanted) }?;
    }
    let result = summed(result, |label| output.contains(label))?;
    let order: Vec<usize> =
        output.iter().filter_map(|label| result.labels.iter().position(|own| own == label)).collect();
    if order.is_empty() { Ok(result.tensor) } else { permuted(&result.tensor, &order) }
}

/// Sums over dimensions that are not needed.
fn summed(term: Term, wanted: impl Fn(&Label) -> bool) -> Result<Term> {
    let dims: Ints = (0..term.labels.len()).filter(|&dim| !wanted(&term.labels[dim])).map(|dim| dim as i64).collect();
    if dims.is_empty() {
        return Ok(term);
    }
    let tensor = op!(SUM_DIM, &term.tensor, dims)?;
    Ok(Term { tensor, labels: term.labels.into_iter().filter(wanted).collect() })
}

/// One batched product: labels of both that are needed are the batch, other labels of both are summed over.
fn pair(a: Term, b: Term, wanted: impl Fn(&Label) -> bool) -> Result<Term> {
    let a = summed(a, |label| wanted(label) || b.labels.contains(label))?;
    let b = summed(b, |label| wanted(label) || a.labels.contains(label))?;
    let size = |term: &Term, label: &Label| {
        term.labels.iter().position(|own| own == label).map(|dim| term.tensor.sizes()[dim])
    };
    let (mut batch, mut inner, mut left, mut right) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for label in &a.labels {
        match (b.labels.contains(label), wanted(label)) {
            (true, true) => batch.push(*label),
            (true, false) => inner.push(*label),
            (false, _) => left.push(*label),
        }
    }
    right.extend(b.labels.iter().filter(|label| !a.labels.contains(label)));
    let full = |label: &Label| match (size(&a, label), size(&b, label)) {
        (Some(1), Some(other)) => other,
        (Some(own), _) => own,
        (None, other) => other.unwrap_or(1),
    };
    let product = |labels: &[Label]| labels.iter().map(&full).product::<isize>();
    // All labels of a group in order, expanded to full size, and the group as one dimension.
    let grouped = |term: &Term, groups: [&[Label]; 3]| -> Result<Tensor> {
        let labels: Vec<Label> = groups.concat();
        let order: Vec<usize> =
            labels.iter().filter_map(|label| term.labels.iter().position(|own| own == label)).collect();
        let tensor = if order.is_empty() { term.tensor.clone() } else { permuted(&term.tensor, &order)? };
        let sizes: Vec<isize> = labels.iter().map(&full).collect();
        let value = value::sizes_value;
        let tensor = if tensor.sizes().as_slice() == sizes {
            tensor
        } else {
            crate::view::expand::EXPAND.tensor([(&tensor).into(), value(&sizes)])?
        };
        crate::view::RESHAPE.tensor([(&tensor).into(), value(&groups.map(&product))])
    };
    let mut x = grouped(&a, [&batch, &left, &inner])?;
    let mut y = grouped(&b, [&batch, &inner, &right])?;
    if inner.is_empty() {
        // Elementwise products promote, and earlier sums may have a wider dtype.
        let common = promote(x.dtype(), y.dtype())?;
        (x, y) = (to_dtype(&x, common)?, to_dtype(&y, common)?);
    }
    let result = op!(BATCHED, &x, &y)?;
    let labels: Vec<Label> = [batch, left, right].concat();
    let sizes: Vec<isize> = labels.iter().map(&full).collect();
    let tensor = crate::view::RESHAPE.tensor([(&result).into(), value::sizes_value(&sizes)])?;
    Ok(Term { tensor, labels })
}
