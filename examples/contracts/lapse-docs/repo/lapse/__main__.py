import sys

from lapse.cli import main

sys.exit(main())
