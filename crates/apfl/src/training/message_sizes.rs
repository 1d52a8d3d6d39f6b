//! The sizes of a round's messages, measured on one local step.

use std::sync::Arc;

use super::{Setup, fitted};
use crate::algorithm::{Algorithm, AlgorithmSpec, AlgorithmVisitor};
use crate::clients::wire::{Body, joined};
use crate::clients::{Clients, Request, StateHome};
use crate::error::{Error, Result};
use crate::local_client::{LocalWork, Scratch};

/// The bytes of a round's messages between the server and a client, without what the transport
/// adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSizes {
    /// From the server.
    pub request: usize,
    /// To the server.
    pub response: usize,
}

/// Returns the number of parameters of the model and the sizes of a round's messages. The client
/// takes one local step.
pub(crate) fn message_sizes(
    setup: Setup,
    algorithm: &AlgorithmSpec,
    client: usize,
) -> Result<(usize, MessageSizes)> {
    struct Measure(Setup, usize);
    impl AlgorithmVisitor for Measure {
        type Output = Result<(usize, MessageSizes)>;
        fn visit<A: Algorithm>(self, algorithm: A) -> Self::Output {
            let Self(mut setup, client) = self;
            setup.context.local_training.work = LocalWork::Steps(1);
            let algorithm = fitted(algorithm, &setup)?;
            let (context, algorithm) = setup.context.for_pass(Arc::new(algorithm));
            let (parameters, all) = (context.w0.len(), context.dataset.clients());
            let server = algorithm.start(&context.w0, all);
            let request = Request::Train {
                round: 1,
                sent: algorithm.broadcast(&server),
                score: true,
            };
            let clients = Clients::<A>::new(context, algorithm, &StateHome::Ram)?;
            let response = clients.handle((0, client), &request, &mut Scratch::default())?;
            let mut body = Body::default();
            let tail = body.request::<A>(&request);
            let request = joined(body.into_bytes(), &tail).len();
            let mut body = Body::default();
            let tail = body.response::<A>(response);
            let response = joined(body.into_bytes(), &tail).len();
            let sizes = MessageSizes { request, response };
            Ok((parameters, sizes))
        }
    }
    algorithm.require_listed().map_err(Error::Request)?;
    algorithm.clone().accept(Measure(setup, client))
}
