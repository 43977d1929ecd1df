/** Fails on words that have a plain replacement in technical English: in code, comments, messages, tests and pages. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

/** What is not written, and what is written instead. */
const replacements: readonly (readonly [words: RegExp, instead: string])[] = [
  [/\bmend(?:s|ed|ing)?\b/i, 'fix'],
  [/\banew\b/i, 'again, or a verb with re-'],
  [/\b(?:is|are|was|were|be|been) away\b(?! from)/i, 'unavailable, or missing'],
  [/(?<!\bthere )\b(?:is|was) no (?:HTTP URL|URL|JDBC URL|JSON|YAML|UTF-8|TLS|JWT|MBean)\b/i, '"is not a …"'],
  [/\b(?:has|had) the lead\b/i, 'is the leader'],
  [/\bbegin again\b/i, 'start again'],
  [/\bneeds of (?:the|every)\b/i, 'dependencies of'],
];

/** Recorded and foreign text, and files that hold the words as data. */
const excluded =
  /^(?:test\/fixtures\/|scripts\/wording\.ts$|test\/unit\/scripts\/wording\.test\.ts$|package-lock\.json$|LICENSE$)/;
const text = /\.(?:md|ts|tsx|js|css|html|sh|ya?ml|tpl|java|py|toml|lua|txt|snap)$|(?:^|\/)(?:Dockerfile|run)$/;

const found = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => text.test(file) && !excluded.test(file) && existsSync(file))
  .flatMap(wordsOf);
for (const line of found) console.error(line);
process.exitCode = found.length === 0 ? 0 : 1;

function wordsOf(file: string): readonly string[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line, index) =>
      replacements.flatMap(([words, instead]) => {
        const [word] = words.exec(line) ?? [];
        return word === undefined ? [] : [`${file}:${index + 1}: "${word}": write ${instead}`];
      }),
    );
}
