'use strict';

require('./records');
require('./groups');
require('./transactions');
require('./admin');
require('./secured');
require('../javascript/harness').runAll();
