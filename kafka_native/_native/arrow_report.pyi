from typing import final

from kafka_native.errors import KafkaError

@final
class ArrowReport:
    """The outcomes of the rows of one call of `Producer.produce_arrow`.

    `poll()` or `flush()` passes it to the call's ``on_delivery``. A row has no object of its own:
    delivered rows are counted, and consecutive failed rows with the same error are kept together.

    Attributes
    ----------
    rows : int
        The number of rows that the call took: the delivered and the failed ones.
    delivered : int
        The number of rows that the broker has acknowledged (with ``acks=0``: that were sent).
    """

    rows: int
    delivered: int
    @property
    def failed(self) -> list[tuple[int, KafkaError]]:
        """The failed rows as (row, KafkaError) pairs, sorted by row.

        A row is its index in the call's input, across chunks.
        """
    @property
    def error(self) -> KafkaError | None:
        """The KafkaError of the first failed row, or None if every row was delivered."""
