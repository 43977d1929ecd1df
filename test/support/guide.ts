/** Code blocks of shell commands below a heading of a page, and below headings of lower levels in its section. */
export function blocksOf(page: string, heading: string): readonly string[] {
  const [marks = ''] = heading.split(' ');
  const [, after] = page.split(`\n${heading}\n`);
  if (after === undefined) throw new Error(`the page has no heading ${heading}`);
  const end = new RegExp(`^#{1,${marks.length}} `, 'm').exec(
    after.replaceAll(/^```.*?^```$/gms, (code) => code.replaceAll('#', '.')),
  );
  const section = after.slice(0, end?.index);
  return [...section.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block);
}

/** Commands of a section, in order: line by line, here-documents and loops as one. */
export function commandsOf(page: string, heading: string): readonly string[] {
  const command = /^(?:for .*\n[\s\S]*?^done$|.*<<'YAML'\n[\s\S]*?^YAML$|(?:.*\\\n)*.+$)/gm;
  return blocksOf(page, heading).flatMap((block) => block.match(command) ?? []);
}
