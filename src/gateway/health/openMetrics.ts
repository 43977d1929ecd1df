/**
 * Parses values of a text in OpenMetrics or Prometheus format: by name the sample without labels, else the first one.
 * Ignores timestamps, exemplars and lines that are not samples.
 */
export function parseMetrics(text: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split('\n')) {
    const sample = /^([A-Za-z_:][A-Za-z0-9_:]*)(\{.*\})?[ \t]+(\S+)/.exec(line);
    if (sample === null) continue;
    const [, name = '', labels, written = ''] = sample;
    const value = numberOf(written);
    if (value !== null && (labels === undefined || !values.has(name))) values.set(name, value);
  }
  return values;
}

function numberOf(text: string): number | null {
  const infinite = /^([+-]?)inf(inity)?$/i.exec(text);
  if (infinite !== null) return infinite[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  const value = Number(text);
  return Number.isNaN(value) ? null : value;
}
