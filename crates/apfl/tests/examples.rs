//! The examples run and print what they claim. (`own_algorithm` has a file of its own.)

use apfl::model::Workspace;
use apfl::{Examples, Model};

#[path = "../examples/own_data.rs"]
mod own_data;
#[path = "../examples/own_model.rs"]
mod own_model;
#[path = "../examples/personal_models.rs"]
mod personal_models;

#[test]
fn they_run() {
    own_data::main().unwrap();
    own_model::main().unwrap();
    personal_models::main().unwrap();
}

/// x = 1, 2 and y = 0, 1 at a = b = c = 1: z = 3, 7, so δ = (z − y)/2 = 1.5, 3, the loss is
/// (9 + 36)/4 and the gradient Σδ(1, x, x²) = (4.5, 7.5, 13.5).
#[test]
fn the_parabola_has_the_gradient_of_the_comment() {
    let model: &dyn Model = &own_model::Parabola::new();
    let examples = Examples::values(1, vec![1.0, 2.0], vec![0.0, 1.0]).unwrap();
    let mut gradient = [0.0; 3];
    let mut ws = Workspace::default();
    let loss = model.gradient(&[1.0; 3], &examples.all(), &mut ws, &mut gradient);
    assert_eq!((loss, gradient), (11.25, [4.5, 7.5, 13.5]));
}
