"""Sets up the process of the tests."""

import signal

# A shell starts background jobs with this signal ignored, and some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)
