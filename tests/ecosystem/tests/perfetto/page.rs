//! A trace as Perfetto's page sees it, read with Perfetto's own definitions.

use std::{
    collections::{HashMap, HashSet},
    time::{SystemTime, UNIX_EPOCH},
};

use perfetto_protos::{
    builtin_clock::BuiltinClock,
    debug_annotation::debug_annotation::Name_field,
    trace::Trace,
    trace_packet::{TracePacket, trace_packet::Data},
    track_descriptor::{TrackDescriptor, track_descriptor::ChildTracksOrdering},
    track_event::{TrackEvent, track_event::Type},
};
use protobuf::{Message, MessageDyn, reflect::ReflectValueRef};
use ws::trace::Recording;

/// A trace as the page sees it.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) tracks: HashMap<u64, TrackDescriptor>,
    pub(crate) slices: Vec<Slice>,
    pub(crate) moments: Vec<Moment>,
    pub(crate) counters: Vec<(String, u64, i64)>,
    /// Where each arrow began, and where it ended.
    pub(crate) arrows: HashMap<u64, (u64, Option<u64>)>,
    /// Names that have a number.
    pub(crate) numbered: HashSet<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) track: u64,
    pub(crate) name: String,
    pub(crate) begin: u64,
    pub(crate) end: Option<u64>,
    pub(crate) task: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) track: u64,
    pub(crate) name: String,
    pub(crate) time: u64,
    pub(crate) task: Option<u64>,
    /// Level and target of a line of a log.
    pub(crate) texts: Vec<(String, String)>,
    /// More about it, but for the task.
    pub(crate) numbers: Vec<(String, u64)>,
}

/// Fails if a message has a field that its definition does not know.
pub(crate) fn knows_all(message: &dyn MessageDyn) {
    let unknown = message.special_fields_dyn().unknown_fields();
    assert_eq!(unknown.iter().count(), 0, "{message:?}");
    for field in message.descriptor_dyn().fields() {
        if field.is_repeated() {
            for value in field.get_repeated(message) {
                if let ReflectValueRef::Message(inner) = value {
                    knows_all(&*inner);
                }
            }
        } else if let Some(ReflectValueRef::Message(inner)) = field.get_singular(message) {
            knows_all(&*inner);
        }
    }
}

impl Page {
    pub(crate) fn read(recording: &Recording) -> Self {
        let mut bytes = Vec::new();
        recording.write_perfetto(&mut bytes).unwrap();
        let trace = Trace::parse_from_bytes(&bytes).expect("it is a trace");
        Self::of(&trace, Some(recording.began))
    }

    pub(crate) fn of(trace: &Trace, began: Option<SystemTime>) -> Self {
        knows_all(trace);
        let mut page = Self::default();
        page.first(&trace.packet[0], began);
        let mut texts = Texts::default();
        let mut open: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut last = 0;
        for packet in &trace.packet[1..] {
            assert_eq!(packet.trusted_packet_sequence_id(), 1);
            texts.learn(packet);
            match packet.data.as_ref().expect("a packet has something") {
                Data::TrackDescriptor(track) => page.track(track),
                Data::TrackEvent(event) => {
                    assert!(packet.has_timestamp());
                    assert_eq!(packet.sequence_flags(), 2, "it needs what is interned");
                    let path = page.path(event.track_uuid());
                    let is_late = match event.type_() {
                        Type::TYPE_SLICE_BEGIN => path.contains("long polls"),
                        Type::TYPE_SLICE_END => path.contains("spans"),
                        _ => false,
                    };
                    let time = packet.timestamp();
                    assert!(time >= last || is_late, "{time} after {last}");
                    last = last.max(time);
                    page.event(time, event, &texts, &mut open);
                }
                other => panic!("{other:?}"),
            }
        }
        page.numbered = texts.names.into_values().collect();
        page
    }

    fn first(&mut self, packet: &TracePacket, began: Option<SystemTime>) {
        assert_eq!(packet.sequence_flags(), 1, "nothing is interned yet");
        let Some(Data::ClockSnapshot(snapshot)) = &packet.data else {
            panic!("the first packet tells the clock: {packet:?}");
        };
        let clocks: HashMap<_, _> = snapshot
            .clocks
            .iter()
            .map(|clock| (clock.clock_id() as i32, clock.timestamp()))
            .collect();
        assert_eq!(
            snapshot.primary_trace_clock(),
            BuiltinClock::BUILTIN_CLOCK_BOOTTIME
        );
        // A second look at the clocks may find another time.
        let Some(began) = began else {
            return;
        };
        let began = began.duration_since(UNIX_EPOCH).unwrap();
        let expected = [
            (BuiltinClock::BUILTIN_CLOCK_BOOTTIME as i32, 0),
            (
                BuiltinClock::BUILTIN_CLOCK_REALTIME as i32,
                began.as_nanos() as u64,
            ),
        ];
        assert_eq!(clocks, HashMap::from(expected));
    }

    fn track(&mut self, track: &TrackDescriptor) {
        assert!(track.uuid() > 0);
        if track.has_parent_uuid() {
            assert!(self.tracks.contains_key(&track.parent_uuid()), "{track:?}");
        } else {
            assert_eq!(track.process.pid(), std::process::id() as i32);
            assert!(track.process.process_name().starts_with("perfetto"));
            let ordering = track.child_ordering();
            assert_eq!(ordering, ChildTracksOrdering::EXPLICIT);
        }
        // One that was described long ago is described anew.
        let before = self.tracks.insert(track.uuid(), track.clone());
        assert!(before.is_none_or(|before| before == *track), "{track:?}");
    }

    /// The name of a track, and before that those of its parents.
    pub(crate) fn path(&self, uuid: u64) -> String {
        let track = self.tracks.get(&uuid).expect("it was described before");
        match track.parent_uuid {
            None => String::new(),
            Some(parent) => format!("{}/{}", self.path(parent), track.name()),
        }
    }

    fn event(
        &mut self,
        time: u64,
        event: &TrackEvent,
        texts: &Texts,
        open: &mut HashMap<u64, Vec<usize>>,
    ) {
        let track = event.track_uuid();
        let path = self.path(track);
        let is_counter = self.tracks[&track].counter.is_some();
        assert_eq!(is_counter, event.type_() == Type::TYPE_COUNTER, "{path}");
        let name = || match event.has_name_iid() {
            true => texts.names[&event.name_iid()].clone(),
            false => event.name().to_owned(),
        };
        let beside = event.debug_annotations.iter().map(|annotation| {
            let Some(Name_field::NameIid(iid)) = annotation.name_field else {
                panic!("its name is interned: {annotation:?}");
            };
            (texts.annotations[&iid].clone(), annotation)
        });
        let beside: Vec<_> = beside.collect();
        let task = beside.iter().find(|(name, _)| name == "task");
        let task = task.map(|(_, annotation)| annotation.uint_value());
        for flow in &event.flow_ids {
            let before = self.arrows.insert(*flow, (time, None));
            assert!(before.is_none(), "arrows have numbers of their own");
        }
        for flow in &event.terminating_flow_ids {
            let (began, end) = self.arrows.get_mut(flow).expect("it began before");
            assert!(*began <= time && end.is_none());
            *end = Some(time);
        }
        if event.has_name_iid() || event.has_name() {
            assert!(!event.has_name_iid() || !event.has_name(), "{event:?}");
            let category = &texts.categories[&event.category_iids[0]];
            let known = ["scheduler", "mark", "span", "log"];
            assert!(known.contains(&category.as_str()));
        }
        let open = open.entry(track).or_default();
        match event.type_() {
            Type::TYPE_SLICE_BEGIN => {
                if let Some(&around) = open.last() {
                    assert!(self.slices[around].begin <= time, "{path}");
                }
                open.push(self.slices.len());
                self.slices.push(Slice {
                    track,
                    name: name(),
                    begin: time,
                    end: None,
                    task,
                });
            }
            Type::TYPE_SLICE_END => {
                let slice = open
                    .pop()
                    .unwrap_or_else(|| panic!("nothing is open: {path}"));
                assert!(self.slices[slice].begin <= time, "{path}");
                self.slices[slice].end = Some(time);
            }
            Type::TYPE_INSTANT => self.moments.push(Moment {
                track,
                name: name(),
                time,
                task,
                texts: (beside.iter())
                    .filter(|(_, annotation)| annotation.has_string_value())
                    .map(|(name, annotation)| (name.clone(), annotation.string_value().to_owned()))
                    .collect(),
                numbers: (beside.iter())
                    .filter(|(name, annotation)| name != "task" && annotation.has_uint_value())
                    .map(|(name, annotation)| (name.clone(), annotation.uint_value()))
                    .collect(),
            }),
            Type::TYPE_COUNTER => {
                let value = event.counter_value();
                self.counters.push((path, time, value));
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn slices_on(&self, path: &str) -> Vec<&Slice> {
        let slices = self.slices.iter();
        slices
            .filter(|slice| self.path(slice.track) == path)
            .collect()
    }
}

/// What is interned so far.
#[derive(Default)]
struct Texts {
    names: HashMap<u64, String>,
    categories: HashMap<u64, String>,
    annotations: HashMap<u64, String>,
}

impl Texts {
    fn learn(&mut self, packet: &TracePacket) {
        let new = &packet.interned_data;
        let mut learn = |of: fn(&mut Self) -> &mut HashMap<u64, String>, iid, text: &str| {
            let before = of(self).insert(iid, text.to_owned());
            assert!(iid > 0 && before.is_none(), "a text has one number");
        };
        for it in &new.event_names {
            learn(|texts| &mut texts.names, it.iid(), it.name());
        }
        for it in &new.event_categories {
            learn(|texts| &mut texts.categories, it.iid(), it.name());
        }
        for it in &new.debug_annotation_names {
            learn(|texts| &mut texts.annotations, it.iid(), it.name());
        }
    }
}
