import { Button, Group } from '@mantine/core';

interface FormButtonsProps {
  /** What the form does, as a verb. */
  readonly action: string;
  /** Whether it is being done. */
  readonly busy: boolean;
  readonly onCancel: () => void;
}

/** The end of a form: the button that sends it, and the one that leaves it. */
export function FormButtons({ action, busy, onCancel }: FormButtonsProps) {
  return (
    <Group justify="flex-end">
      <Button variant="default" onClick={onCancel}>
        Cancel
      </Button>
      <Button type="submit" loading={busy}>
        {action}
      </Button>
    </Group>
  );
}
