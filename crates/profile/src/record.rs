//! The kernel's records as values: samples with chain, registers and stack, and how many were lost.

use perf_event_open_sys::bindings as perf;

/// Markers in a chain that say whose addresses follow (linux/perf_event.h).
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;
const CONTEXT_MAX: u64 = -4095_i64 as u64;

/// One sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The process.
    pub pid: u32,
    /// Addresses in the kernel, the innermost first.
    pub kernel: Vec<u64>,
    /// Addresses of the user's chain by frame pointers, the innermost first.
    pub user: Vec<u64>,
    /// The registers that were asked for, in their order; none if the thread has no user part.
    pub registers: Vec<u64>,
    /// The used part of the copied stack, from the stack pointer upwards.
    pub stack: Vec<u8>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A sample.
    Sample(Sample),
    /// This many records were lost, because the ring was full.
    Lost(u64),
    /// A process has started another, as a copy of itself.
    Forked {
        /// The new process.
        child: u32,
        /// The process that it is a copy of.
        parent: u32,
    },
    /// This process has become another program.
    Executed(u32),
    /// Nothing that is needed.
    Other,
}

/// Reads one record, its header included; a record that is cut off counts as nothing.
pub fn parse(bytes: &[u8], registers: usize) -> Record {
    let mut reader = Reader(bytes);
    let read = |reader: &mut Reader<'_>| -> Option<Record> {
        let kind = reader.u32()?;
        let flags = reader.u32()? & 0xffff;
        match kind {
            perf::PERF_RECORD_SAMPLE => sample(reader, registers).map(Record::Sample),
            perf::PERF_RECORD_FORK => {
                let (child, parent) = (reader.u32()?, reader.u32()?);
                (child != parent).then_some(Record::Forked { child, parent }) // otherwise it is a new thread
            }
            perf::PERF_RECORD_COMM if flags & perf::PERF_RECORD_MISC_COMM_EXEC != 0 => {
                reader.u32().map(Record::Executed)
            }
            perf::PERF_RECORD_LOST => {
                reader.u64()?;
                reader.u64().map(Record::Lost)
            }
            _ => None,
        }
    };
    read(&mut reader).unwrap_or(Record::Other)
}

/// The bytes of a sample that has nothing but a tracepoint's own fields; None if it is another record.
pub fn fields(bytes: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader(bytes);
    let kind = reader.u32()?;
    reader.u32()?;
    let size = usize::try_from(reader.u32()?).ok()?;
    (kind == perf::PERF_RECORD_SAMPLE).then(|| reader.take(size)).flatten()
}

fn sample(reader: &mut Reader<'_>, registers: usize) -> Option<Sample> {
    let mut made = Sample { pid: reader.u32()?, ..Sample::default() };
    reader.u32()?;
    let mut in_kernel = false;
    for _ in 0..reader.u64()? {
        match reader.u64()? {
            CONTEXT_KERNEL => in_kernel = true,
            CONTEXT_USER => in_kernel = false,
            marker if marker >= CONTEXT_MAX => {}
            address if in_kernel => made.kernel.push(address),
            address => made.user.push(address),
        }
    }
    if reader.u64()? != 0 {
        made.registers = (0..registers).map(|_| reader.u64()).collect::<Option<_>>()?;
    }
    let size = usize::try_from(reader.u64()?).ok()?;
    if size > 0 {
        let stack = reader.take(size)?;
        let used = usize::try_from(reader.u64()?).ok()?.min(size);
        made.stack = stack[..used].to_vec();
    }
    Some(made)
}

/// Reads numbers off the front of some bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_sample_has_both_chains_the_registers_and_the_used_part_of_the_stack() {
        let chain = [5, CONTEXT_KERNEL, 0xffff_0001, CONTEXT_USER, 0x40, 0x41];
        let words: Vec<u64> = [7].into_iter().chain(chain).chain([2, 11, 12, 13, 16, 21, 22, 8]).collect();
        let Record::Sample(read) = parse(&record(perf::PERF_RECORD_SAMPLE, &words), 3) else { panic!() };
        assert_eq!((read.pid, read.kernel, read.user), (7, vec![0xffff_0001], vec![0x40, 0x41]));
        assert_eq!((read.registers, read.stack), (vec![11, 12, 13], 21_u64.to_ne_bytes().to_vec()));
    }

    #[test]
    fn a_tracepoints_sample_has_its_fields() {
        let mut bytes = record(perf::PERF_RECORD_SAMPLE, &[]);
        bytes.extend(12_u32.to_ne_bytes());
        bytes.extend([7; 12]);
        assert_eq!(fields(&bytes), Some([7; 12].as_slice()));
        assert_eq!(fields(&bytes[..19]), None);
        assert_eq!(fields(&record(perf::PERF_RECORD_LOST, &[1, 2])), None);
    }

    #[test]
    fn new_processes_and_programs_are_read_and_new_threads_are_not() {
        let fork = |child: u64, parent: u64| parse(&record(perf::PERF_RECORD_FORK, &[child | parent << 32, 0, 9]), 3);
        assert_eq!(fork(8, 7), Record::Forked { child: 8, parent: 7 });
        assert_eq!(fork(7, 7), Record::Other);
        let mut named = record(perf::PERF_RECORD_COMM, &[8, 0]);
        assert_eq!(parse(&named, 3), Record::Other);
        named[4..6].copy_from_slice(&(perf::PERF_RECORD_MISC_COMM_EXEC as u16).to_ne_bytes());
        assert_eq!(parse(&named, 3), Record::Executed(8));
    }

    #[test]
    fn lost_records_are_counted_and_broken_ones_are_nothing() {
        assert_eq!(parse(&record(perf::PERF_RECORD_LOST, &[1, 42]), 3), Record::Lost(42));
        assert_eq!(parse(&record(perf::PERF_RECORD_SAMPLE, &[7, 1000]), 3), Record::Other);
        assert_eq!(parse(&[1, 2], 3), Record::Other);
    }
}
