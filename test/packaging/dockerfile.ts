/** One instruction of a Dockerfile. */
export interface Instruction {
  /** In upper case, e.g. `COPY`. */
  readonly name: string;
  /** `--from=x` and the like, without the dashes. */
  readonly flags: Readonly<Record<string, string>>;
  /** What follows, continuation lines joined. */
  readonly text: string;
}

/** A stage: its base image and name, and the instructions after FROM. */
export interface Stage {
  readonly base: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

/** Parses a Dockerfile without here-documents: comments, continuation lines, flags, stages; `FROM` takes the defaults of
 * the arguments before it. */
export function parseDockerfile(text: string): readonly Stage[] {
  const lines = text
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const stages: { base: string; name: string | undefined; instructions: Instruction[] }[] = [];
  const defaults = new Map<string, string>();
  for (const line of lines) {
    const [, name = '', rest = ''] = /^(\S+)\s+(.*)$/.exec(line) ?? [];
    const flags: Record<string, string> = {};
    const content = rest.replace(/^(--\S+\s+)+/, (all) => {
      for (const [, key = '', value = ''] of all.matchAll(/--([^=\s]+)=?(\S*)/g)) flags[key] = value;
      return '';
    });
    if (name.toUpperCase() === 'FROM') {
      const [, base = '', stage] = /^(\S+)(?:\s+AS\s+(\S+))?$/i.exec(content) ?? [];
      const named = base.replace(/\$\{(\w+)\}/g, (whole, name: string) => defaults.get(name) ?? whole);
      stages.push({ base: named, name: stage, instructions: [] });
      continue;
    }
    const stage = stages.at(-1);
    if (stage !== undefined) stage.instructions.push({ name: name.toUpperCase(), flags, text: content });
    else if (name.toUpperCase() !== 'ARG') throw new Error(`${name} before FROM`);
    else {
      const [, argument = '', value = ''] = /^(\w+)=(\S*)$/.exec(content) ?? [];
      defaults.set(argument, value);
    }
  }
  return stages;
}

/** Program and arguments of an instruction in exec form, e.g. `["node", "x"]`; throws for the shell form. */
export function execForm(text: string): readonly string[] {
  const value: unknown = JSON.parse(text.replace(/^CMD\s+/, ''));
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string'))
    throw new Error(`no exec form: ${text}`);
  return value;
}

/** Files that go into the build context by a .dockerignore whose patterns are names at the top, `*` and `!name`. */
export function inContext(ignore: string, file: string): boolean {
  let included = true;
  for (const line of ignore.split('\n').map((each) => each.trim())) {
    if (line === '' || line.startsWith('#')) continue;
    const name = line.replace(/^!/, '');
    if (/[*?[]/.test(name) && name !== '*') throw new Error(`pattern not understood: ${line}`);
    if (name === '*' || file === name || file.startsWith(`${name}/`)) included = line.startsWith('!');
  }
  return included;
}
