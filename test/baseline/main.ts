/**
 * `npm run compare-with-baseline`: compares what users see of this program with what they saw of the baseline commit.
 * A difference fails unless a row of `docs/removed.md` covers it; so does a row that covers nothing, apart from rows
 * for Normal Events: whether one is written depends on how soon a state follows the first. `--record` records the
 * baseline again, from the history. `--only NAME` takes one recording.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { recordCommands } from './commands.ts';
import { covers, differences, readRemovals } from './difference.ts';
import { recordInventories } from './inventories.ts';
import { recordOperations } from './operations.ts';
import { baselineProgram, currentProgram, type Program } from './program.ts';
import { recordProtocol } from './protocol.ts';
import { recordResources } from './resources.ts';

const recorders: Readonly<Record<string, (program: Program) => Promise<Record<string, unknown>>>> = {
  commands: recordCommands,
  inventories: recordInventories,
  operations: recordOperations,
  protocol: recordProtocol,
  resources: recordResources,
};

const args = process.argv.slice(2);
const only = args.includes('--only') ? args[args.indexOf('--only') + 1] : undefined;
const isRecording = args.includes('--record');
const removals = readRemovals(readFileSync(join(import.meta.dirname, '../../docs/removed.md'), 'utf8'));
const program = isRecording ? baselineProgram() : await currentProgram();
const used = new Set<(typeof removals)[number]>();
let failures = 0;

for (const [name, record] of Object.entries(recorders)) {
  if (only !== undefined && only !== name) continue;
  const file = join(import.meta.dirname, 'recorded', `${name}.json`);
  if (isRecording) {
    writeFileSync(file, `${JSON.stringify(await record(program), null, 1)}\n`);
    continue;
  }
  const recorded: unknown = JSON.parse(readFileSync(file, 'utf8'));
  // What differs by luck, on a busy machine, is equal the second time.
  for (const isLast of [false, true]) {
    const found = differences(recorded, JSON.parse(JSON.stringify(await record(program))), [name]);
    const covering = (path: string) => removals.filter((removal) => covers(removal, path));
    for (const removal of found.flatMap(({ path }) => covering(path))) used.add(removal);
    const open = found.filter(({ path }) => covering(path).length === 0);
    for (const { path, recorded: before, current } of open)
      console.log(`\n${path}\n  recorded: ${before}\n  current:  ${current}`);
    console.log(`${name}: ${found.length} differences, ${open.length} not in docs/removed.md`);
    if (open.length === 0) break;
    if (isLast) failures += open.length;
  }
}
if (!isRecording && only === undefined) {
  for (const removal of removals.filter((each) => !used.has(each) && !each.pattern.includes('> Normal '))) {
    console.log(`docs/removed.md: \`${removal.pattern}\` covers no difference; delete the row`);
    failures += 1;
  }
}
process.exitCode = failures === 0 ? 0 : 1;
