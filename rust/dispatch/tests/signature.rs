//! Signatures in torch's syntax.

use rushlight_dispatch::signature::{Kind, Returns, Schema};
use rushlight_dispatch::value::Value;

#[test]
fn a_signature_is_taken_apart() {
    let schema =
        Schema::parse("(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor")
            .unwrap();
    let names: Vec<_> = schema.params.iter().map(|p| (p.name, p.kind, p.optional, p.keyword_only)).collect();
    assert_eq!(names[1], ("dim", Kind::IntOrInts, true, false));
    assert_eq!(names[3], ("dtype", Kind::DType, true, true));
    assert_eq!(schema.positional, 3);
    assert!(matches!(schema.params[2].default_value(), Value::Bool(false)));
}

#[test]
fn results_may_have_names() {
    let schema = Schema::parse("(Tensor self, int dim) -> (Tensor values, Tensor indices)").unwrap();
    assert_eq!(schema.returns, Returns::Named(&["values", "indices"]));
}
