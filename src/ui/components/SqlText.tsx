import sql from 'highlight.js/lib/languages/sql';
import { createLowlight } from 'lowlight';
import { memo, type ReactNode } from 'react';
import classes from './SqlText.module.css';

const lowlight = createLowlight({ sql });

/** Only this many characters are coloured: colouring takes the browser a second for each million characters. */
const MAX_COLOURED_LENGTH = 50_000;

/** SQL with its words coloured: keywords, names of functions, literals, comments. */
export const SqlText = memo(function SqlText({ text }: { readonly text: string }) {
  const coloured = text.slice(0, MAX_COLOURED_LENGTH);
  return (
    <pre className={classes.sql}>
      {lowlight.highlight('sql', coloured).children.map(nodeOf)}
      {text.slice(MAX_COLOURED_LENGTH)}
    </pre>
  );
});

type Node = ReturnType<typeof lowlight.highlight>['children'][number];

function nodeOf(node: Node, index: number): ReactNode {
  if (node.type === 'text') return node.value;
  if (node.type !== 'element') return null;
  const names = Array.isArray(node.properties.className) ? node.properties.className.map(String) : [];
  const kind = names.find((name) => name.startsWith('hljs-'))?.slice('hljs-'.length);
  return (
    <span key={index} data-kind={kind}>
      {node.children.map((child, at) => nodeOf(child, at))}
    </span>
  );
}
