//! Handles: what C holds instead of our objects, checked at every use.
//!
//! A handle looks like a pointer, so that a C compiler tells kinds apart and null is nothing; but it is a
//! place in a table, with the kind and the number of objects that had the place before, and nobody ever
//! follows it. So one that was freed, or is of another kind, is an error and never memory of somebody
//! else's. Kinds stand in the four highest bits, which makes it no address: to follow one ends the program
//! at once.

use std::ptr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::status::{CIRCULANT_ERR_HANDLE, CIRCULANT_ERR_NULL, Failure, Result};

/// From the highest bit down: kind, generation, place (from 1 on).
const KIND: u32 = 60;
const GENERATION: u32 = 32;
/// As many objects may have one place; it is given to nobody after.
const GENERATIONS: u32 = 1 << (KIND - GENERATION);

const _: () = assert!(usize::BITS == 64, "handles have 64 bits");

/// Objects that C holds by handles.
pub trait Object: Send + Sync + Sized + 'static {
    /// What a handle's type points to, which there is none of.
    type Opaque;
    /// The number of the kind, from 1 to 15.
    const KIND: usize;

    /// Where the objects of the kind are.
    fn table() -> &'static Table<Self>;
}

/// The kinds' names, by number.
const NAMES: [&str; 4] = ["a communicator", "a window", "a request", "an operator"];

fn name(kind: usize) -> Option<&'static str> {
    NAMES.get(kind.wrapping_sub(1)).copied()
}

/// All objects of one kind.
pub struct Table<T>(RwLock<Slots<T>>);

struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

struct Slot<T> {
    generation: u32,
    object: Option<Arc<T>>,
}

impl<T> Table<T> {
    pub const fn new() -> Table<T> {
        Table(RwLock::new(Slots { slots: Vec::new(), free: Vec::new() }))
    }

    fn read(&self) -> RwLockReadGuard<'_, Slots<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots<T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives an object a handle.
pub fn insert<T: Object>(object: T) -> *mut T::Opaque {
    let mut table = T::table().write();
    let place = table.free.pop().unwrap_or_else(|| {
        table.slots.push(Slot { generation: 0, object: None });
        table.slots.len() - 1
    });
    let slot = &mut table.slots[place];
    slot.object = Some(Arc::new(object));
    let word = T::KIND << KIND | (slot.generation as usize) << GENERATION | (place + 1);
    ptr::without_provenance_mut(word)
}

/// The object of a handle.
pub fn get<T: Object>(handle: *mut T::Opaque) -> Result<Arc<T>> {
    let place = place::<T>(handle)?;
    let table = T::table().read();
    table.slots.get(place).and_then(|slot| slot.of(handle)).ok_or_else(gone::<T>)
}

/// Takes an object out of its table: the handle is good for nothing after. The object lives as long as
/// calls that other threads are in.
pub fn remove<T: Object>(handle: *mut T::Opaque) -> Result<Arc<T>> {
    let place = place::<T>(handle)?;
    let mut table = T::table().write();
    let found = table.slots.get(place).and_then(|slot| slot.of(handle)).ok_or_else(gone::<T>)?;
    table.clear(place);
    Ok(found)
}

/// All objects that `belongs` is true of.
pub fn all<T: Object>(belongs: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
    let table = T::table().read();
    table
        .slots
        .iter()
        .filter_map(|slot| slot.object.as_ref())
        .filter(|object| belongs(object))
        .cloned()
        .collect()
}

/// Takes out all objects that `belongs` is true of.
pub fn remove_all<T: Object>(belongs: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
    let mut table = T::table().write();
    let found = |(place, slot): (usize, &Slot<T>)| {
        slot.object.as_ref().filter(|object| belongs(object)).map(|object| (place, Arc::clone(object)))
    };
    let found: Vec<_> = table.slots.iter().enumerate().filter_map(found).collect();
    found.iter().for_each(|(place, _)| table.clear(*place));
    found.into_iter().map(|(_, object)| object).collect()
}

impl<T> Slots<T> {
    fn clear(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        slot.object = None;
        slot.generation += 1;
        if slot.generation < GENERATIONS {
            self.free.push(place);
        }
    }
}

impl<T: Object> Slot<T> {
    /// The object, where it is the one that the handle was given for.
    fn of(&self, handle: *mut T::Opaque) -> Option<Arc<T>> {
        let generation = (handle.addr() >> GENERATION) as u32 % GENERATIONS;
        self.object.clone().filter(|_| self.generation == generation)
    }
}

fn place<T: Object>(handle: *mut T::Opaque) -> Result<usize> {
    let (wanted, word) = (name(T::KIND).unwrap_or_default(), handle.addr());
    if word == 0 {
        return Err(Failure::new(
            CIRCULANT_ERR_NULL,
            format!("null where {wanted} belongs"),
            "give one that a call of this library gave",
        ));
    }
    let found = match name(word >> KIND) {
        _ if word >> KIND == T::KIND => return Ok((word as u32 as usize).wrapping_sub(1)),
        Some(other) => format!("{other} where {wanted} belongs"),
        None => format!("{word:#x} where {wanted} belongs"),
    };
    Err(Failure::new(CIRCULANT_ERR_HANDLE, found, "give one that a call of this library gave"))
}

fn gone<T: Object>() -> Failure {
    let what = format!("{} that was freed, or that never was", name(T::KIND).unwrap_or_default());
    Failure::new(CIRCULANT_ERR_HANDLE, what, "use a handle no more once it is freed")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(u32);
    static THINGS: Table<Thing> = Table::new();

    impl Object for Thing {
        type Opaque = u8;
        const KIND: usize = 3;
        fn table() -> &'static Table<Thing> {
            &THINGS
        }
    }

    fn error(handle: *mut u8) -> (i32, String) {
        let failure = get::<Thing>(handle).err().unwrap();
        (failure.code, failure.sentence)
    }

    #[test]
    fn a_handle_is_good_until_it_is_freed() {
        let (one, two) = (insert(Thing(1)), insert(Thing(2)));
        assert_eq!((get::<Thing>(one).unwrap().0, get::<Thing>(two).unwrap().0), (1, 2));
        remove::<Thing>(one).unwrap();
        let three = insert(Thing(3));
        assert_eq!(get::<Thing>(three).unwrap().0, 3);
        assert_ne!(one, three, "the place may be the same, the handle is not");
        assert_eq!(error(one).0, CIRCULANT_ERR_HANDLE);
        assert!(remove::<Thing>(one).is_err());
        assert_eq!(get::<Thing>(two).unwrap().0, 2);
    }

    #[test]
    fn what_is_no_handle_is_named() {
        let word = |word: usize| error(ptr::without_provenance_mut(word));
        assert_eq!(word(0).0, CIRCULANT_ERR_NULL);
        assert!(word(2 << KIND | 1).1.starts_with("a window where a request belongs"));
        assert!(word(0x7ffc_1234).1.starts_with("0x7ffc1234 where a request belongs"));
        assert!(word(3 << KIND).1.starts_with("a request that was freed, or that never was"));
        assert!(word(3 << KIND | 0xffff_ffff).1.starts_with("a request that was freed"));
        assert_eq!(word(usize::MAX).0, CIRCULANT_ERR_HANDLE);
    }

    #[test]
    fn a_place_that_had_its_generations_is_given_to_nobody() {
        let mut slots = Slots {
            slots: vec![Slot { generation: GENERATIONS - 2, object: None::<Arc<u8>> }],
            free: vec![],
        };
        slots.clear(0);
        assert_eq!(slots.free, [0]);
        slots.free.clear();
        slots.clear(0);
        assert!(slots.free.is_empty());
    }
}
