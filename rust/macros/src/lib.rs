//! `#[operator]`: the arguments of an operator by name, taken from its signature when it is compiled.
//!
//! The attribute is placed on the `static` (or the shared `const`) that defines an operator:
//!
//! ```ignore
//! #[operator]
//! pub static ADD: Operator = Operator {
//!     signature: "(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
//!     derivative: Derivative::Formulas(&[
//!         formula(INPUT, Saves::NOTHING, |d| d.grad()),
//!         formula(OTHER, Saves::NOTHING, |d| scaled(d.grad(), d.scalar(ALPHA))),
//!     ]),
//!     ..Operator::BASE
//! };
//! ```
//!
//! It generates a module of the same name, which has a constant for each parameter: `ADD::INPUT` (the parameter
//! `self`), `ADD::OTHER` and `ADD::ALPHA`. Each constant is an `Arg`: the position of the parameter and its name. The
//! constants are in scope inside the definition; other functions write `args.scalar(ADD::ALPHA)` or `use ADD::*`. A
//! definition without a signature has the constants of its base. Only this attribute makes an `Arg`, so that neither a
//! wrong name nor a bare number compiles.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Generates the module with the arguments of an operator.
#[proc_macro_attribute]
pub fn operator(_: TokenStream, item: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = item.into_iter().collect();
    expand(&tokens).unwrap_or_else(|message| error(&message))
}

/// The definition with the constants in scope, followed by the module of constants.
fn expand(tokens: &[TokenTree]) -> Result<TokenStream, String> {
    let assign = tokens.iter().position(|token| is_punct(token, '=')).ok_or(USAGE)?;
    let colon = tokens[..assign].iter().position(|token| is_punct(token, ':')).ok_or(USAGE)?;
    let name = colon.checked_sub(1).and_then(|at| ident(&tokens[at])).ok_or(USAGE)?;
    let keyword = tokens[..colon].iter().position(|token| {
        let word = ident(token).map(|ident| ident.to_string());
        matches!(word.as_deref(), Some("static" | "const"))
    });
    let keyword = keyword.ok_or(USAGE)?;
    let visibility =
        tokens[..keyword].iter().rposition(|token| ident(token).is_some_and(|word| word.to_string() == "pub"));
    let visibility: TokenStream =
        visibility.map(|at| tokens[at..keyword].iter().cloned().collect()).unwrap_or_default();
    let (end, value) = tokens[assign + 1..].split_last().ok_or(USAGE)?;
    let fields = value.last().and_then(braces);
    let constants = match fields.as_deref().map(|fields| (signature(fields), fields)) {
        Some((Some(text), _)) => named(&parameters(&text?)?)?,
        Some((None, fields)) => inherited(base(fields)?)?,
        None => inherited(value)?,
    };
    let module = name.to_string();
    let mut scoped = parse(&format!("#[allow(unused_imports)] use {module}::*;"))?;
    scoped.extend(value.iter().cloned());
    let mut out: TokenStream = tokens[..=assign].iter().cloned().collect();
    out.extend([TokenTree::Group(Group::new(Delimiter::Brace, scoped)), end.clone()]);
    out.extend(parse(&format!(
        "#[doc = \"The arguments of `{module}` by name.\"] #[allow(non_snake_case, unused_imports)]"
    ))?);
    out.extend(visibility);
    out.extend([TokenTree::Ident(Ident::new("mod", Span::call_site())), TokenTree::Ident(name.clone())]);
    out.extend([TokenTree::Group(Group::new(Delimiter::Brace, constants))]);
    Ok(out)
}

const USAGE: &str = "#[operator] expects `static NAME: Operator = Operator { .. };`";

fn parse(text: &str) -> Result<TokenStream, String> {
    text.parse().map_err(|error| format!("#[operator] generated invalid Rust: {error}"))
}

fn error(message: &str) -> TokenStream {
    parse(&format!("compile_error!({message:?});")).unwrap_or_default()
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

/// The identifier of a token. Macros wrap the tokens they substitute in groups without delimiters.
fn ident(token: &TokenTree) -> Option<Ident> {
    match token {
        TokenTree::Ident(ident) => Some(ident.clone()),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            group.stream().into_iter().next().as_ref().and_then(ident)
        }
        _ => None,
    }
}

fn braces(token: &TokenTree) -> Option<Vec<TokenTree>> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream().into_iter().collect()),
        _ => None,
    }
}

/// The text of the field `signature`; `None` if the base has it.
fn signature(fields: &[TokenTree]) -> Option<Result<String, String>> {
    let mut parts = fields.split(|token| is_punct(token, ','));
    let value = parts.find_map(|field| match field {
        [name, colon, value @ ..] if is_punct(colon, ':') => (ident(name)?.to_string() == "signature").then_some(value),
        _ => None,
    })?;
    let mut text = String::new();
    literals(value.iter().cloned().collect(), &mut text);
    Some(if text.is_empty() {
        Err("a signature must be a string literal, so that its names can be read".to_owned())
    } else {
        Ok(text)
    })
}

/// Appends the string literals among the tokens, including those in arguments of macros such as `concat!`.
fn literals(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => literals(group.stream(), text),
            TokenTree::Literal(literal) => {
                let literal = literal.to_string();
                text.extend(literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')));
            }
            _ => {}
        }
    }
}

/// The type and the name of each parameter.
fn parameters(signature: &str) -> Result<Vec<(&str, &str)>, String> {
    let list = signature.split(") -> ").next().unwrap_or(signature).trim_start_matches('(');
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let declared = parts.into_iter().filter(|part| !part.is_empty() && *part != "*").map(|part| {
        let head = part.split('=').next().unwrap_or(part);
        let (kind, name) = head.rsplit_once(' ').ok_or_else(|| format!("no name in `{part}` of a signature"))?;
        Ok((kind, name.trim_start_matches('*')))
    });
    declared.collect()
}

/// A constant for each parameter.
fn named(parameters: &[(&str, &str)]) -> Result<TokenStream, String> {
    let mut text = String::new();
    for (position, (kind, name)) in parameters.iter().enumerate() {
        let constant = if *name == "self" { "INPUT".to_owned() } else { name.to_uppercase() };
        text += &format!(
            "#[doc = \"`{kind} {name}`\"] pub const {constant}: ::rushlight_dispatch::value::Arg = ::rushlight_dispatch::value::Arg::of_signature({position}, {name:?});"
        );
    }
    parse(&text)
}

/// The tokens after `..` at the end of a definition.
fn base(fields: &[TokenTree]) -> Result<&[TokenTree], String> {
    let dots = fields.windows(2).rposition(|two| is_punct(&two[0], '.') && is_punct(&two[1], '.'));
    dots.map(|at| &fields[at + 2..]).ok_or_else(|| "a definition without a signature needs a base, `..BASE`".to_owned())
}

/// Re-exports the constants of another definition.
fn inherited(base: &[TokenTree]) -> Result<TokenStream, String> {
    let words: Vec<String> = base.iter().filter_map(ident).map(|ident| ident.to_string()).collect();
    let path = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // `Operator::BASE` and the other bases of `Operator` have no arguments.
        ["Operator", ..] => return Ok(TokenStream::new()),
        ["crate", ..] => words.join("::"),
        ["self", ref rest @ ..] => format!("super::{}", rest.join("::")),
        _ => format!("super::{}", words.join("::")),
    };
    parse(&format!("pub use {path}::*;"))
}

#[cfg(test)]
mod tests {
    use super::parameters;

    #[test]
    fn parameters_are_read_in_order() {
        let signature = "(Tensor self, int[1]? dims=[0, 1], *, Tensor[] *rest, str mode='mean') -> (Tensor, Tensor)";
        let read = parameters(signature).unwrap();
        assert_eq!(read, [("Tensor", "self"), ("int[1]?", "dims"), ("Tensor[]", "rest"), ("str", "mode")]);
    }

    #[test]
    fn a_list_without_names_is_refused() {
        assert!(parameters("(Tensor) -> Tensor").is_err());
        assert_eq!(parameters("() -> None").unwrap(), []);
    }
}
