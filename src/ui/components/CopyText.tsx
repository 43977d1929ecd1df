import { ActionIcon, CopyButton } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

export function CopyText({ text, what }: { readonly text: string; readonly what: string }) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        // The browser's own hint, as lists have many of these.
        <ActionIcon
          onClick={copy}
          aria-label={copied ? `${what} copied` : `Copy ${what}`}
          title={copied ? 'Copied' : `Copy ${what}`}
        >
          {copied ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />}
        </ActionIcon>
      )}
    </CopyButton>
  );
}
