export { cartList } from './cart.js';
export { letter } from './letter.js';
export { page } from './page.js';
