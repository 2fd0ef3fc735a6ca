//! Proof 13: OpenTelemetry's batch processor of spans, as a task of `ws`. The part above the proof
//! is what a program needs: `docs/porting.md` links here.

use std::{
    fmt::Debug,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::channel::mpsc;
use opentelemetry_sdk::runtime::{Runtime, RuntimeChannel, TrySend, TrySendError};

/// The runtime of `ws`, to OpenTelemetry.
#[derive(Clone, Debug)]
struct OnWs(ws::runtime::Handle);

impl Runtime for OnWs {
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, future: F) {
        drop(self.0.spawn(future));
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` would borrow `self`"
    )]
    fn delay(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        async move { ws::time::sleep(duration).await }
    }
}

impl RuntimeChannel for OnWs {
    type Receiver<T: Debug + Send> = mpsc::Receiver<T>;
    type Sender<T: Debug + Send> = Sender<T>;

    fn batch_message_channel<T: Debug + Send>(
        &self,
        capacity: usize,
    ) -> (Sender<T>, mpsc::Receiver<T>) {
        let (sender, receiver) = mpsc::channel(capacity);
        (Sender(Mutex::new(sender)), receiver)
    }
}

#[derive(Debug)]
struct Sender<T>(Mutex<mpsc::Sender<T>>);

impl<T: Debug + Send> TrySend for Sender<T> {
    type Message = T;

    fn try_send(&self, item: T) -> Result<(), TrySendError> {
        let mut sender = self.0.lock().unwrap();
        sender
            .try_send(item)
            .map_err(|error| match error.is_full() {
                true => TrySendError::ChannelFull,
                false => TrySendError::ChannelClosed,
            })
    }
}

mod proof {
    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::{
        error::OTelSdkResult,
        trace::{
            SdkTracerProvider, SpanData, SpanExporter,
            span_processor_with_async_runtime::BatchSpanProcessor,
        },
    };

    use super::*;
    use crate::harness::proofs;

    #[derive(Clone, Debug, Default)]
    struct Count(Arc<AtomicUsize>);

    impl SpanExporter for Count {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.fetch_add(batch.len(), SeqCst);
            Ok(())
        }
    }

    proofs! {
        /// Spans that eight tasks make are all exported, by a task of `ws`.
        async fn spans_are_exported(env) {
            let exported = Count::default();
            let runtime = OnWs(ws::runtime::Handle::current());
            let provider = SdkTracerProvider::builder()
                .with_span_processor(BatchSpanProcessor::builder(exported.clone(), runtime).build())
                .build();
            let tasks: Vec<_> = (0..8)
                .map(|_| {
                    let tracer = provider.tracer("proof");
                    ws::spawn(async move { (0..100).for_each(|_| tracer.in_span("work", |_| ())) })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            // It blocks until the batches are out.
            ws::spawn_blocking(move || provider.shutdown()).await.unwrap().unwrap();
            assert_eq!(exported.0.load(SeqCst), 800);
        }
    }
}
