"""The version of this program: the distribution has one, and the client's package holds it."""

import client.models

VERSION = client.__version__
