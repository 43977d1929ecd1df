import { Fragment } from 'react';
import { Time } from './time.tsx';

const stamps = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

export function MessageText({ text }: { readonly text: string }) {
  return text.split(stamps).map((part, index) => {
    const at = index % 2 === 1 ? Date.parse(part) : Number.NaN;
    // biome-ignore lint/suspicious/noArrayIndexKey: parts have no identity but their place
    return Number.isNaN(at) ? <Fragment key={index}>{part}</Fragment> : <Time key={index} at={at} />;
  });
}
