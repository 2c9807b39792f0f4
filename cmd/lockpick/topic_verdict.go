package main

// verdictFile documents verdict.json and outcome.json. A test holds it to the structs
// that are written: each field has its line, and no line is of a field that there
// isn't.
const verdictFile = `verdict.json and outcome.json are for programs. Both have "schema": 1; what is there
keeps its name and meaning as long as that number stays, and new fields may be
added. A field that is marked ? is left out where it is empty. Instants and spans
are of true time: seconds where a field's unit is s, else nanoseconds (ns) since
the run began.

verdict.json: what the record shows, whatever was expected
  schema         1
  model ?        what the lock of a history of Jepsen's was taken for: mutex,
                 owner-mutex, handle or lease (lockpick check --help); of the first two
                 the one result has that name for a property
  assumption ?   why nothing can be decided: a malformed record, a vacuous run, or
                 what the simulation does not know, or a fault that nobody planned
  unplanned ?    true: the assumption is that nobody but the plan injects faults
  cut ?          where and why the record ends before the run did
  second         what porcupine, the second judge, says of lease-linearizable:
                 holds, violated or undecided
  disagreement ? where the judges contradict each other: a bug of lockpick
  results        one for each property (below)
  numbers ?      what was measured, by name (help scenario-format lists them):
                 …-latency-…, …-seconds, …-longest and validity-left-… in s;
                 shares, rates and indices have no unit; all others are counts
  words ?        the cause of what a number measures, by its name

verdict.json, each of results
  property       its name (help properties)
  outcome        holds, violated, undecided or not-exercised (help properties)
  because        why, in one sentence
  occasions      how often the property was put to the test; 0 of none that holds
  incidents ?    how often it was violated
  cause ?        of the violation that is shown
  node ?         the node to blame
  losses ?       why each node that granted both sessions could (below); cause sums
                 them up
  spare ?        votes that the second session had to spare; 0: each loss was needed
  stalled ?      how long the machine stood still at most, s, where that may be why
                 the outcome is not another (help properties)
  witness ?      the proof of a violation (below)

verdict.json, each of losses
  node           the node
  cause          what became there of the key of the session that was granted first
  text           the same in a sentence
  fact ?         number (n) of the event by which the node tells that the key ended;
                 none where its time was over
  put ?          number of the one by which the second's key took its place
  steps ?        steps of the plan that did it; -1: a fault that nobody planned
  first          the session whose key was there first
  second         the other one

verdict.json, a witness
  events         numbers (n) of events in history.jsonl, in the order of time
  sessions       the sessions that it takes, the earlier one first
  key            the lock
  from           when the harm began, ns
  to             when it ended, ns

outcome.json: what came, held against what the scenario expected
  schema         1
  scenario       NAME or NAME/VARIANT
  backend        sim, process, …
  seed           what all that is random was drawn from
  code           exit code of this run alone (help exit-codes)
  judgements ?   one for each property and each number that has a bound (below)
  error ?        why it could not be run or judged
  hint ?         what to do about that
  skipped ?      why it was not run
  retried ?      why each earlier try did not count, and its directory
  stopped ?      where the run was stopped early, and why
  dir ?          run directory
  command        runs it again
  seconds        of wall clock, s
  virtual        of true time in the run, s
  events         how many events were recorded
  numbers ?      of verdict.json's, those that another variant may be compared with

outcome.json, each of judgements
  property       its name, or that of a number
  expected       in words; "" if nothing was
  got            holds, violated, undecided or not-exercised
  cause ?        of the violation that is shown
  node ?         the node to blame
  because        why, in one sentence
  asExpected     true or false; an expected violation is true, and still no pass
  missed ?       a violation was expected and did not come
  follows ?      the property that this one is expected to come out as
  confirmation ? what came of running it again with the cause undone (below)
  number ?       where it is a number (below)

outcome.json, a confirmation
  state          confirmed: each node that is named refuses the second session once
                 it has kept the first's key, and the two do not overlap; put-off: they
                 overlap later, through another loss; jointly-necessary: no single
                 node would have sufficed; refuted; not-applicable: no key ended
                 before its time; facts-suffice: this backend can't run it again
  why            in one sentence
  alone ?        nodes of which one alone, had it kept its key, would have sufficed
  runs           how often it was run again

outcome.json, a number
  value          what was measured, in the number's unit; 0 where it is missing
  bound          what it has to keep (below)
  waits ?        the other variant's number is not there yet

outcome.json, a bound
  is             one of < > <= >=
  value          the bound, or the factor of the other variant's number
  than ?         the other variant; base is the scenario without one`
