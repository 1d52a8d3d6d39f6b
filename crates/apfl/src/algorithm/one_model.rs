//! What the algorithms have in common whose server is one model, which travels as it is, and is
//! the mean of what comes back.

/// Within `impl Algorithm for …`: all that FedAvg does but for the local round.
macro_rules! one_model {
    () => {
        type Server = $crate::pack::ModelOnly;
        type Broadcast = $crate::pack::ModelOnly;
        type Update = $crate::pack::ModelOnly;
        type Fold = $crate::params::Mean;

        fn start(&self, w0: &[f32], _clients: usize) -> Self::Server {
            Self::Server { model: w0.to_vec() }
        }

        fn broadcast(&self, server: &Self::Server) -> Self::Broadcast {
            server.clone()
        }

        fn fold(
            &self,
            _: &Self::Server,
            fold: &mut Self::Fold,
            from: $crate::algorithm::Sender,
            update: Self::Update,
        ) {
            fold.add(from.weight, &update.model);
        }

        fn finish(&self, server: &mut Self::Server, fold: Self::Fold) {
            if let Some(w) = fold.value() {
                server.model = w;
            }
        }

        fn shared<'a>(&self, server: &'a Self::Server) -> &'a [f32] {
            &server.model
        }

        fn aggregated_mut<'a>(&self, server: &'a mut Self::Server) -> Option<&'a mut [f32]> {
            Some(&mut server.model)
        }

        fn localized<'a>(&self, _: &'a Self::Memory, update: &'a Self::Update) -> &'a [f32] {
            &update.model
        }
    };
}
