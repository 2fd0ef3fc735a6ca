//! Options, as lapin has them.

/// Of `basic_ack`.
#[derive(Copy, Clone, Debug, Default)]
pub struct BasicAckOptions {
    /// All up to this one.
    pub multiple: bool,
}

/// Of `basic_cancel`.
#[derive(Copy, Clone, Debug, Default)]
pub struct BasicCancelOptions {}

/// Of `basic_consume`.
#[derive(Copy, Clone, Debug, Default)]
pub struct BasicConsumeOptions {
    /// Deliveries count as acknowledged.
    pub no_ack: bool,
}

/// Of `basic_publish`.
#[derive(Copy, Clone, Debug, Default)]
pub struct BasicPublishOptions {}

/// Of `basic_qos`.
#[derive(Copy, Clone, Debug, Default)]
pub struct BasicQosOptions {
    /// For the connection.
    pub global: bool,
}

/// Of `confirm_select`.
#[derive(Copy, Clone, Debug, Default)]
pub struct ConfirmSelectOptions {}

/// Of `queue_declare`.
#[derive(Copy, Clone, Debug, Default)]
pub struct QueueDeclareOptions {
    /// It outlives a restart of the broker.
    pub durable: bool,
}

impl QueueDeclareOptions {
    /// A queue that outlives a restart of the broker.
    pub fn durable() -> Self {
        Self { durable: true }
    }
}
